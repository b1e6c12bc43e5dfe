import { type FileHandle, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'
import type { Clock } from '../../shared/kernel/time.ts'
import { type AgentLog, errorText } from '../logger.ts'
import { syncFolder } from './atomic-file.ts'
import { JournalRecord } from './journal-record.ts'

/** What {@link readJournal} found. `damaged` counts lines that could not be used; a torn last line is one of them. */
export interface JournalContent {
  readonly records: JournalRecord[]
  readonly damaged: number
  /** More is missing than a line that was just being written: lines are damaged, or the file was cut. */
  readonly hasLost: boolean
  /** Where the last line ends; what is behind it is room that was never written to, or a torn line. */
  readonly usedBytes: number
  readonly fileBytes: number
}

/**
 * Room that the file always has behind its last line. It is there for urgent records when the disk is full; the others
 * leave it alone. An order takes about 4 KiB of it until it is done.
 */
export const RESERVE_BYTES = 1024 * 1024
/** By how much the file grows beyond its reserve at a time. */
const GROWTH_BYTES = 64 * 1024
/** How much more is written before a snapshot for which there was no room is tried again. */
const COMPACT_AGAIN_BYTES = 256 * 1024
const RETRY_MS = 1000
const SAY_AGAIN_MS = 60_000
const LINE_END = 10
const ZEROS = Buffer.alloc(GROWTH_BYTES)

interface JournalFileOptions {
  readonly path: string
  readonly clock: Clock
  readonly log: AgentLog
  /** The shortest list of records that gives the present state, all appended ones included. */
  readonly snapshot: () => JournalRecord[]
  /** Compact when what is written is more than this and than twice what the last snapshot took. */
  readonly compactBytes: number
}

interface Waiting {
  readonly bytes: Buffer
  readonly urgent: boolean
  readonly resolve: () => void
}

/**
 * Reads a journal. A line that is torn, cut or altered is left out: each carries a checksum, and lines that were never
 * synced may be missing anywhere near the end after a power cut.
 */
export async function readJournal(path: string): Promise<JournalContent> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
    return { records: [], damaged: 0, hasLost: false, usedBytes: 0, fileBytes: 0 }
  }
  const usedBytes = bytes.lastIndexOf(LINE_END) + 1
  const records: JournalRecord[] = []
  const torn = bytes.subarray(usedBytes).some((byte) => byte !== 0) ? 1 : 0
  let damaged = 0
  const lines = bytes.toString('utf8', 0, usedBytes).split('\n')
  lines.pop()
  for (const line of lines) {
    const record = decodeLine(line)
    if (record === undefined) damaged++
    else records.push(record)
  }
  // The room behind the last line is always there, unless the disk was full or the file was cut.
  const hasLost = damaged > 0 || bytes.length - usedBytes < RESERVE_BYTES
  return { records, damaged: damaged + torn, hasLost, usedBytes, fileBytes: bytes.length }
}

/** One line of the file: checksum, blank, JSON. */
export function encodeLine(record: JournalRecord): string {
  const json = JSON.stringify(record)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

function decodeLine(text: string): JournalRecord | undefined {
  // Zeros in front of a line are room of the file that was never written to.
  const line = text.replace(/^\0+/, '')
  const json = line.slice(9)
  if (line[8] !== ' ' || crc32(json).toString(16).padStart(8, '0') !== line.slice(0, 8)) return undefined
  const parsed = JournalRecord.safeParse(JSON.parse(json))
  return parsed.success ? parsed.data : undefined
}

/**
 * The writing side: an append resolves when its records are on the disk. Appends that come together share one fsync. When
 * the disk refuses (full), the batch is kept and tried again, because what is in memory must not run ahead for ever; urgent
 * records, and with them all that came before them, then go into the room that the file has in reserve.
 */
export class JournalFile {
  readonly #options: JournalFileOptions
  #handle: FileHandle | undefined
  /** Where the next line goes. */
  #used = 0
  /** How long the file is; all of it has been written to, so that writing there again takes no room of the disk. */
  #length = 0
  #compactAbove: number
  #waiting: Waiting[] = []
  #flushing: Promise<void> | undefined
  #closing = new AbortController()
  /** Ends the pause before the next attempt. */
  #hurry = new AbortController()
  #saidAtMs = Number.NEGATIVE_INFINITY

  constructor(options: JournalFileOptions) {
    this.#options = options
    this.#compactAbove = options.compactBytes
  }

  /**
   * Starts with a freshly written snapshot, which also drops every damaged line; where there is no room for one, with the
   * file as `found`.
   */
  async open(found: Pick<JournalContent, 'usedBytes' | 'fileBytes'>): Promise<void> {
    try {
      await this.#compact()
    } catch (error) {
      if (!isFull(error) || found.fileBytes === 0) throw error
      this.#handle = await open(this.#options.path, 'r+')
      this.#used = found.usedBytes
      this.#length = found.fileBytes
    }
  }

  /** `urgent` records may use the reserve. */
  append(records: readonly JournalRecord[], urgent = false): Promise<void> {
    // As if the agent had been killed here: whoever waits must not act on what is not on the disk.
    if (this.#closing.signal.aborted) return new Promise(() => {})
    const bytes = Buffer.from(records.map(encodeLine).join(''))
    return new Promise((resolve) => {
      this.#waiting.push({ bytes, urgent, resolve })
      if (urgent) this.#hurry.abort()
      this.#flushing ??= this.#flush()
    })
  }

  /** Writes what waits and closes. A disk that still refuses is given up on; the caller gets a rejection. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#flushing
    await this.#handle?.close()
    this.#handle = undefined
    if (this.#waiting.length > 0) throw new Error('The journal could not be written to the disk')
  }

  async #flush(): Promise<void> {
    // Let the callers of this turn of the event loop join the first batch.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      this.#hurry = new AbortController()
      try {
        const written = (await this.#compactWhenLong()) ? batch.length : await this.#write(batch)
        for (const entry of batch.splice(0, written)) entry.resolve()
        this.#waiting = [...batch, ...this.#waiting]
      } catch (error) {
        this.#waiting = [...batch, ...this.#waiting]
        this.#complain(error)
        if (this.#closing.signal.aborted) break
        await this.#options.clock.sleep(RETRY_MS, AbortSignal.any([this.#closing.signal, this.#hurry.signal]))
      }
    }
    this.#flushing = undefined
  }

  /** A disk may stay full for hours: one word a minute is enough. */
  #complain(error: unknown): void {
    const { clock, log } = this.#options
    if (clock.monotonicMs() - this.#saidAtMs < SAY_AGAIN_MS) return
    this.#saidAtMs = clock.monotonicMs()
    log.error({ err: errorText(error) }, 'cannot write journal, retrying')
  }

  /** Writes as much of the batch as there is room for, and answers how many of its entries that are. */
  async #write(batch: readonly Waiting[]): Promise<number> {
    const handle = this.#handle
    if (handle === undefined) throw new Error('the file is not open')
    const refused = await this.#grow(handle, sizeOf(batch))
    // What came before an urgent record goes with it: the order of records has a meaning.
    const count = refused === undefined ? batch.length : batch.findLastIndex(({ urgent }) => urgent) + 1
    const bytes = Buffer.concat(batch.slice(0, count).map((entry) => entry.bytes))
    if (refused !== undefined && (count === 0 || this.#used + bytes.length > this.#length)) throw refused
    await writeAt(handle, bytes, this.#used)
    try {
      await handle.datasync()
    } catch (error) {
      // What was written of it is no longer believed: after a failed sync the pages may be gone, so a new file is made.
      this.#handle = undefined
      await handle.close()
      throw error
    }
    this.#used += bytes.length
    if (refused === undefined) this.#saidAtMs = Number.NEGATIVE_INFINITY
    return count
  }

  /** Makes room for so many bytes in front of the reserve. Answers why not, when the disk is full. */
  async #grow(handle: FileHandle, bytes: number): Promise<unknown> {
    const wanted = this.#used + bytes + RESERVE_BYTES
    if (this.#length >= wanted) return undefined
    try {
      while (this.#length < wanted) {
        const { bytesWritten } = await handle.write(ZEROS, 0, ZEROS.length, this.#length)
        this.#length += bytesWritten
      }
      return undefined
    } catch (error) {
      if (isFull(error)) return error
      throw error
    }
  }

  /** True when everything up to now is on the disk by a new snapshot. */
  async #compactWhenLong(): Promise<boolean> {
    if (this.#handle !== undefined && this.#used <= this.#compactAbove) return false
    try {
      await this.#compact()
      return true
    } catch (error) {
      if (this.#handle === undefined || !isFull(error)) throw error
      this.#compactAbove = this.#used + COMPACT_AGAIN_BYTES
      return false
    }
  }

  async #compact(): Promise<void> {
    const { path, snapshot, compactBytes } = this.#options
    const temporary = `${path}.new`
    const bytes = Buffer.from(snapshot().map(encodeLine).join(''))
    const whole = Buffer.concat([bytes, Buffer.alloc(RESERVE_BYTES + GROWTH_BYTES)])
    const handle = await open(temporary, 'w', 0o600)
    try {
      await handle.writeFile(whole)
      await handle.sync()
      await rename(temporary, path)
      await syncFolder(dirname(path))
    } catch (error) {
      await handle.close()
      await rm(temporary, { force: true }) // half a snapshot would take the room that is missing
      throw error
    }
    const old = this.#handle
    this.#handle = handle
    this.#used = bytes.length
    this.#length = whole.length
    this.#compactAbove = Math.max(compactBytes, bytes.length * 2)
    await old?.close()
  }
}

function sizeOf(batch: readonly Waiting[]): number {
  return batch.reduce((sum, { bytes }) => sum + bytes.length, 0)
}

async function writeAt(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  let written = 0
  while (written < bytes.length) {
    const result = await handle.write(bytes, written, bytes.length - written, position + written)
    written += result.bytesWritten
  }
}

/** The disk, or the agent's share of it, is full. */
function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')
}
