import { type FileHandle, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ConsoleLine, LogBounds } from '../../../shared/protocol/console.ts'
import { epochOf, RECORD_HEAD_BYTES, type RecordView, readRecord, readText, SEGMENT_HEAD_BYTES } from './record.ts'
import { SegmentIndex } from './segment-index.ts'
import { segmentsAmong } from './segments.ts'

const CHUNK_BYTES = 128 * 1024

/** How much one read may bring: lines, and bytes of their text. One line is always given, however long. */
export interface ReadLimit {
  readonly maxLines: number
  readonly maxBytes: number
}

/** Lines oldest first; the bounds may be a moment old. `gap`: numbers that were asked for and are no longer there; `lines` go on behind them. */
export interface ReadResult extends LogBounds {
  readonly lines: ConsoleLine[]
  readonly gap: { readonly from: number; readonly to: number } | null
}

/**
 * Reads a console log while another process writes it. It takes no lock and keeps no file open, so a log may be rotated or
 * removed at any moment. Without a log the bounds are `{ epoch: '', first: 1, last: 0 }`.
 */
export class LogReader {
  private readonly dir: string
  private indexes = new Map<string, SegmentIndex>()
  private known: Log | undefined
  private turn: Promise<unknown> = Promise.resolve()

  constructor(dir: string) {
    this.dir = dir
  }

  bounds(): Promise<LogBounds> {
    return this.inTurn(async () => boundsOf(await this.look()))
  }

  /** The newest line when the folder was last looked at. */
  get newest(): number {
    return this.known?.last ?? 0
  }

  /** The epoch of a line that was read; empty for one that is not known here. */
  epochOf(seq: number): string {
    return this.known?.segments.findLast(({ first }) => first <= seq)?.epoch ?? ''
  }

  /** The lines after number `after` that have one epoch, as many as the limit allows. */
  readAfter(after: number, limit: ReadLimit): Promise<ReadResult> {
    return this.inTurn(async () => {
      // A tail that was just notified of new lines reads them without looking at the folder again.
      const known = this.known
      if (known !== undefined && after + 1 >= known.first && after < known.last) {
        const result = await this.collect(known, { from: after + 1, to: known.last, gap: null, limit, oneEpoch: true })
        if (result.lines.length > 0 && result.gap === null) return result
      }
      // What has been written since the last look is read by the look itself.
      const fresh = new Lines(after + 1, limit)
      const log = await this.look(fresh)
      if (fresh.lines.length > 0) return { ...boundsOf(log), lines: fresh.lines, gap: null }
      const from = Math.max(after + 1, log.first)
      const gap = after + 1 < log.first ? { from: after + 1, to: log.first - 1 } : null
      return this.collect(log, { from, to: log.last, gap, limit, oneEpoch: true })
    })
  }

  /** The newest lines before number `before` that the limit allows. */
  readBefore(before: number, limit: ReadLimit): Promise<ReadResult> {
    return this.inTurn(async () => {
      const log = await this.look()
      const to = Math.min(before - 1, log.last)
      let from = Math.max(log.first, to - limit.maxLines + 1)
      const sizes: number[] = []
      let seq = from
      for (const [i, index] of log.segments.entries()) {
        if (index.first > to || lastOf(log, i) < seq) continue
        await this.complete(index, i === log.segments.length - 1)
        // A damaged segment ends early: only what follows without a hole can be counted backwards.
        if (seq < index.first) {
          sizes.length = 0
          from = index.first
          seq = from
        }
        await this.walk(index, seq, (record) => {
          if (record.seq > to) return false
          sizes.push(record.end - record.textStart)
          return true
        })
        seq = from + sizes.length
      }
      let start = to + 1
      for (let bytes = 0; start > from; start--) {
        bytes += sizes[start - 1 - from] ?? 0
        if (bytes > limit.maxBytes && start <= to) break
      }
      const all = { maxLines: limit.maxLines, maxBytes: Number.MAX_SAFE_INTEGER }
      return this.collect(log, { from: start, to, gap: null, limit: all, oneEpoch: false })
    })
  }

  private async collect(log: Log, want: Want): Promise<ReadResult> {
    const found = new Lines(want.from, want.limit)
    const { lines } = found
    let { gap } = want
    for (const [i, index] of log.segments.entries()) {
      if (found.full || found.next > want.to) break
      if (lastOf(log, i) < found.next) continue
      await this.complete(index, i === log.segments.length - 1)
      if (index.first > found.next) {
        // Lines are missing between two segments, by a damaged disk: reported, never passed over in silence.
        if (lines.length > 0) break
        gap = { from: gap?.from ?? found.next, to: index.first - 1 }
        found.next = index.first
      }
      if (lines.length > 0 && want.oneEpoch && index.epoch !== this.epochOf(lines[0]?.[0] ?? 0)) break
      await this.walk(index, found.next, (record, buffer) => record.seq <= want.to && found.take(record, buffer))
    }
    return { ...boundsOf(log), lines, gap }
  }

  /**
   * Lists the segments and finds the newest line; only bytes that were not seen before are read. `fresh` takes the lines that it
   * wants among those, where the first of them is.
   */
  private async look(fresh?: Lines): Promise<Log> {
    for (let attempt = 0; ; attempt++) {
      try {
        this.known = await this.lookOnce(fresh)
        return this.known
      } catch (error) {
        // A segment went away between listing and opening: the log was rotated, so look again.
        if (!isMissing(error) || attempt === 5) throw error
        fresh?.clear()
      }
    }
  }

  private async lookOnce(fresh: Lines | undefined): Promise<Log> {
    const found = segmentsAmong(await readdir(this.dir).catch(noFolder))
    const newest = found.at(-1)
    const oldest = found[0]
    if (newest === undefined || oldest === undefined) {
      this.indexes.clear()
      return { epoch: '', first: 1, last: 0, segments: [], epochs: [] }
    }
    const old = this.indexes
    this.indexes = new Map(found.map(({ name, first }) => [name, old.get(name) ?? new SegmentIndex(name, first)]))
    const segments = [...this.indexes.values()]
    const last = segments.at(-1) ?? new SegmentIndex(newest.name, newest.first)
    await this.extend(last, fresh)
    for (const index of segments) if (index.epoch === '') await this.readEpoch(index)
    const { epoch } = last
    return { epoch, first: oldest.first, last: last.first + last.lines - 1, segments, epochs: epochsOf(segments) }
  }

  /** An older segment is read through once, when something in it is wanted. */
  private async complete(index: SegmentIndex, newest: boolean): Promise<void> {
    if (newest || index.sealed) return
    try {
      await this.extend(index)
      index.sealed = true
    } catch (error) {
      if (!isMissing(error)) throw error // rotated away since it was listed; the next read reports the gap
    }
  }

  private async extend(index: SegmentIndex, fresh?: Lines): Promise<void> {
    const file = await open(join(this.dir, index.name))
    try {
      const head = Buffer.alloc(SEGMENT_HEAD_BYTES)
      await file.read(head, 0, SEGMENT_HEAD_BYTES, 0)
      const epoch = epochOf(head) ?? ''
      // A log that was removed and begun again has files of the same names (and often inodes), but another epoch.
      if (index.epoch !== epoch) index.reset(epoch)
      const start = { seq: index.first + index.lines, offset: index.end }
      await scan(file, start, (record, buffer, offset) => {
        index.add(record.seq, offset, offset + RECORD_HEAD_BYTES + record.end - record.textStart)
        if (fresh !== undefined && record.seq === fresh.next) fresh.take(record, buffer)
        return true
      })
    } finally {
      await file.close()
    }
  }

  private async readEpoch(index: SegmentIndex): Promise<void> {
    const file = await open(join(this.dir, index.name))
    try {
      const head = Buffer.alloc(SEGMENT_HEAD_BYTES)
      await file.read(head, 0, SEGMENT_HEAD_BYTES, 0)
      index.epoch = epochOf(head) ?? ''
    } finally {
      await file.close()
    }
  }

  private async walk(index: SegmentIndex, from: number, visit: Visit): Promise<void> {
    const file = await open(join(this.dir, index.name)).catch((error: unknown) => {
      if (isMissing(error)) return undefined
      throw error
    })
    if (file === undefined) return
    try {
      await scan(file, index.near(from), (record, buffer, offset) => {
        if (record.seq < from) return true
        return visit(record, buffer, offset)
      })
    } finally {
      await file.close()
    }
  }

  /** One call after another: they share the indexes. */
  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.turn.then(work)
    this.turn = mine.catch(() => undefined) // the caller gets the failure; the next in line does not
    return mine
  }
}

interface Log extends LogBounds {
  readonly segments: readonly SegmentIndex[]
}

interface Want {
  readonly from: number
  readonly to: number
  readonly gap: ReadResult['gap']
  readonly limit: ReadLimit
  /** Ends before a line of another epoch than the first one's. */
  readonly oneEpoch: boolean
}

/** Lines from a number on, as many as a limit allows. */
class Lines {
  readonly lines: ConsoleLine[] = []
  /** The number of the line that is wanted next. */
  next: number
  full = false
  private readonly first: number
  private readonly limit: ReadLimit
  private bytes = 0

  constructor(first: number, limit: ReadLimit) {
    this.next = first
    this.first = first
    this.limit = limit
  }

  clear(): void {
    this.lines.length = 0
    this.next = this.first
    this.full = false
    this.bytes = 0
  }

  /** Takes the record; false when there is no room for it. */
  take(record: RecordView, buffer: Buffer): boolean {
    const size = record.end - record.textStart
    const { maxLines, maxBytes } = this.limit
    this.full ||= this.lines.length > 0 && (this.lines.length >= maxLines || this.bytes + size > maxBytes)
    if (this.full) return false
    this.lines.push([record.seq, record.ms, record.stream, readText(buffer, record), record.flags])
    this.bytes += size
    this.next = record.seq + 1
    return true
  }
}

/** Gets each record with the buffer it lies in and its place in the file; `false` ends the walk. */
type Visit = (record: RecordView, buffer: Buffer, offset: number) => boolean

/** Visits the whole records from a known one on, up to the end of what is written. */
async function scan(file: FileHandle, start: { seq: number; offset: number }, visit: Visit): Promise<void> {
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  let { seq, offset } = start
  while (true) {
    const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, offset)
    let at = 0
    while (true) {
      const record = readRecord(buffer, at, { seq, length: bytesRead })
      if (typeof record === 'string') break
      if (!visit(record, buffer, offset + at)) return
      at = record.end
      seq++
    }
    // Less than was asked for is all that there is: what has been written since is for the next look.
    if (at === 0 || (at === bytesRead && bytesRead < CHUNK_BYTES)) return
    offset += at
  }
}

/** The last number that segment `i` should hold, by where the next one begins. */
function lastOf(log: Log, i: number): number {
  const next = log.segments[i + 1]
  return next === undefined ? log.last : next.first - 1
}

function boundsOf({ epoch, first, last, epochs = [] }: LogBounds): LogBounds {
  return { epoch, first, last, ...(epochs.length > 1 ? { epochs } : {}) }
}

function epochsOf(segments: readonly SegmentIndex[]): NonNullable<LogBounds['epochs']> {
  return segments.flatMap(({ epoch, first }, i) => (epoch === segments[i - 1]?.epoch ? [] : [{ epoch, first }]))
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

function noFolder(error: unknown): string[] {
  if (isMissing(error)) return []
  throw error
}
