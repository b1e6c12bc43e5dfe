import {
  closeSync,
  constants,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { LineStream } from '../../shared/frames.ts'
import {
  epochOf,
  MAX_LINE_BYTES,
  RECORD_HEAD_BYTES,
  readRecord,
  SEGMENT_HEAD_BYTES,
  segmentHead,
  writeRecordHead,
} from './record.ts'
import { SEGMENTS, type Segment, segmentBytesOf, segmentName, segmentsAmong } from './segments.ts'

const STAGE_BYTES = 256 * 1024
const SCAN_BYTES = 256 * 1024

/** What a log is opened with. `newEpoch` names the log when there is none yet. */
export interface LogOptions {
  readonly dir: string
  readonly logMb: number
  readonly newEpoch: string
}

/** One line to be written; `ms` is its moment. */
export interface LogEntry {
  readonly stream: LineStream
  readonly ms: number
  readonly text: Buffer
  readonly flags: number
}

/**
 * The only writer of a console log (the caller holds the log's lock). Lines are collected by `append` and reach the file by
 * `flush` in one write; no call waits for the disk. A full disk loses lines, never the writer: they get no number, and the
 * first line that fits again says how many there were.
 */
export class LogWriter {
  readonly epoch: string
  private readonly dir: string
  private readonly segmentBytes: number
  private readonly stage = Buffer.allocUnsafeSlow(STAGE_BYTES)
  private staged = 0
  private stagedLines = 0
  private segments: Segment[]
  private fd: number
  private size: number
  private written: number
  private lost = 0
  private lostWhy = ''

  constructor(options: LogOptions) {
    mkdirSync(options.dir, { recursive: true, mode: 0o700 })
    this.dir = options.dir
    this.segmentBytes = segmentBytesOf(options.logMb)
    const end = recover(options)
    this.epoch = end.epoch
    this.segments = end.segments
    this.fd = end.fd
    this.size = end.size
    this.written = end.last
  }

  /** The number of the last line that is in the file. */
  get last(): number {
    return this.written
  }

  /** Takes one line of at most 16 KiB; it is in the file after the next {@link LogWriter.flush}. */
  append(entry: LogEntry): void {
    if (this.staged === 0 && this.lost > 0) {
      this.put({
        stream: 'system',
        ms: entry.ms,
        text: Buffer.from(`${this.lost} lines were lost here: ${this.lostWhy}`),
        flags: 0,
      })
    }
    this.put(entry)
  }

  /** Writes what was collected. */
  flush(): void {
    if (this.stagedLines === 0) return
    const lines = this.stagedLines
    try {
      writeWhole(this.fd, this.stage, this.staged)
      this.size += this.staged
      this.written += lines
      this.lost = 0
    } catch (error) {
      // The file must end with a whole record for the next write; a torn end would hide all that follows.
      ftruncateSync(this.fd, this.size)
      this.lost += this.lost > 0 ? lines - 1 : lines
      this.lostWhy = error instanceof Error ? error.message : String(error)
    }
    this.staged = 0
    this.stagedLines = 0
  }

  close(): void {
    this.flush()
    closeSync(this.fd)
  }

  private put(entry: LogEntry): void {
    if (entry.text.length > MAX_LINE_BYTES) throw new RangeError('a line of the log has at most 16 KiB')
    const bytes = RECORD_HEAD_BYTES + entry.text.length
    if (this.staged + bytes > STAGE_BYTES) this.flush()
    if (this.size + this.staged + bytes > this.segmentBytes && this.size + this.staged > SEGMENT_HEAD_BYTES) {
      this.flush()
      this.rotate()
    }
    const seq = this.written + this.stagedLines + 1
    const { stream, ms, text, flags } = entry
    writeRecordHead(this.stage, this.staged, { seq, ms, stream, flags, textBytes: text.length })
    text.copy(this.stage, this.staged + RECORD_HEAD_BYTES)
    this.staged += bytes
    this.stagedLines++
  }

  private rotate(): void {
    try {
      const { fd, segment } = createSegment(this.dir, this.epoch, this.written + 1)
      closeSync(this.fd)
      this.fd = fd
      this.size = SEGMENT_HEAD_BYTES
      this.segments.push(segment)
      while (this.segments.length > SEGMENTS) {
        const oldest = this.segments[0]
        if (oldest !== undefined) unlinkSync(join(this.dir, oldest.name))
        this.segments.shift()
      }
    } catch (error) {
      // Without a new segment the present one grows on; the next line tries again.
      this.lostWhy = error instanceof Error ? error.message : String(error)
    }
  }
}

interface LogEnd {
  epoch: string
  segments: Segment[]
  fd: number
  size: number
  last: number
}

/** Opens the newest segment behind its last whole record, and cuts what a killed writer left torn. */
function recover(options: LogOptions): LogEnd {
  const names = readdirSync(options.dir)
  for (const name of names) if (name.endsWith('.new')) unlinkSync(join(options.dir, name))
  const segments = segmentsAmong(names)
  const newest = segments.at(-1)
  if (newest !== undefined) {
    const fd = openSync(join(options.dir, newest.name), constants.O_RDWR | constants.O_APPEND)
    const end = scan(fd, newest.first)
    if (end !== undefined) {
      ftruncateSync(fd, end.size)
      return { ...end, segments, fd }
    }
    // The newest segment has no head, so nobody knows which numbers were given: another epoch begins.
    closeSync(fd)
    for (const segment of segments) unlinkSync(join(options.dir, segment.name))
  }
  const { fd, segment } = createSegment(options.dir, options.newEpoch, 1)
  return { epoch: options.newEpoch, segments: [segment], fd, size: SEGMENT_HEAD_BYTES, last: 0 }
}

function scan(fd: number, first: number): { epoch: string; size: number; last: number } | undefined {
  const buffer = Buffer.allocUnsafe(SCAN_BYTES)
  const epoch = epochOf(buffer.subarray(0, readSync(fd, buffer, 0, SEGMENT_HEAD_BYTES, 0)))
  if (epoch === undefined) return undefined
  let size = SEGMENT_HEAD_BYTES
  let seq = first
  while (true) {
    const length = readSync(fd, buffer, 0, SCAN_BYTES, size)
    let at = 0
    while (true) {
      const record = readRecord(buffer, at, { seq, length })
      if (typeof record === 'string') break
      at = record.end
      seq++
    }
    size += at
    if (at === 0) return { epoch, size, last: seq - 1 }
  }
}

/** A segment appears under its name only with its head in place. */
function createSegment(dir: string, epoch: string, first: number): { fd: number; segment: Segment } {
  const name = segmentName(first)
  const path = join(dir, name)
  const { O_CREAT, O_TRUNC, O_RDWR, O_APPEND } = constants
  const fd = openSync(`${path}.new`, O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0o600)
  try {
    writeWhole(fd, segmentHead(epoch), SEGMENT_HEAD_BYTES)
    fsyncSync(fd)
    renameSync(`${path}.new`, path)
  } catch (error) {
    closeSync(fd)
    throw error
  }
  return { fd, segment: { name, first } }
}

function writeWhole(fd: number, bytes: Buffer, length: number): void {
  let done = 0
  while (done < length) done += writeSync(fd, bytes, done, length - done)
}
