import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import type { LineStream } from '../../../shared/protocol/console.ts'
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

/**
 * What a log is opened with. `newEpoch` names the log when there is none yet. `written`: the last line that is known to have
 * been written.
 */
export interface LogOptions {
  readonly dir: string
  readonly logMb: number
  readonly newEpoch: string
  readonly written?: number
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
  /** What is to be said in front of the next line. */
  private remark: string | undefined

  constructor(options: LogOptions) {
    mkdirSync(options.dir, { recursive: true, mode: 0o700 })
    this.dir = options.dir
    this.segmentBytes = segmentBytesOf(options.logMb)
    const end = recover(options)
    this.remark = end.remark
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
    if (this.remark !== undefined) {
      this.put({ stream: 'system', ms: entry.ms, text: Buffer.from(this.remark), flags: 0 })
      this.remark = undefined
    }
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
  remark?: string
}

/**
 * Opens the newest segment behind its last whole record. Where the log may have had more lines than are there now, it goes on
 * under another epoch, and says so: under the old one a number would be given twice, and who has seen the first line of that
 * number would never be shown the second.
 */
function recover(options: LogOptions): LogEnd {
  const { dir } = options
  const names = readdirSync(dir)
  for (const name of names) if (name.endsWith('.new')) unlinkSync(join(dir, name))
  const rebooted = noteBoot(dir, names)
  const segments = segmentsAmong(names)
  const newest = segments.at(-1)
  if (newest === undefined) return beginSegment({ dir, epoch: options.newEpoch, first: 1, before: [] })
  const fd = openSync(join(dir, newest.name), constants.O_RDWR | constants.O_APPEND)
  const end = scan(fd, newest.first)
  const isWhole = end.epoch !== undefined && fstatSync(fd).size === end.size && end.last >= (options.written ?? 0)
  if (isWhole && !rebooted && end.epoch !== undefined) return { ...end, epoch: end.epoch, segments, fd }
  ftruncateSync(fd, end.size)
  // The lines of a segment whose head is damaged can still be read; nobody knows the epoch that they had.
  if (end.epoch === undefined) writeHead(join(dir, newest.name), freshEpoch())
  closeSync(fd)
  const isEmpty = end.last < newest.first
  if (isEmpty) unlinkSync(join(dir, newest.name))
  const before = isEmpty ? segments.slice(0, -1) : segments
  const begun = beginSegment({ dir, epoch: freshEpoch(), first: end.last + 1, before })
  return { ...begun, remark: isWhole ? REBOOTED : DAMAGED }
}

const REBOOTED = 'The machine was restarted; the last lines before that may be missing here'
const DAMAGED = 'The console log was damaged; lines may be missing here'

function beginSegment(of: { dir: string; epoch: string; first: number; before: readonly Segment[] }): LogEnd {
  const { fd, segment } = createSegment(of.dir, of.epoch, of.first)
  return { epoch: of.epoch, segments: [...of.before, segment], fd, size: SEGMENT_HEAD_BYTES, last: of.first - 1 }
}

/** Whether another boot of the machine has written the log before: what it wrote last may never have reached the disk. */
function noteBoot(dir: string, names: readonly string[]): boolean {
  const boot = thisBoot()
  const path = join(dir, BOOT_FILE)
  const known = names.includes(BOOT_FILE) ? readFileSync(path, 'latin1') : undefined
  if (known === boot) return false
  writeFileSync(path, boot, { mode: 0o600 })
  return known !== undefined
}

const BOOT_FILE = 'boot'

function thisBoot(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
  } catch {
    return 'unknown' // then no restart of the machine is ever noticed
  }
}

/**
 * An epoch has 26 characters of an alphabet that ids use. The holder loads no package that would make one, and to ask the
 * kernel by itself spares it Node's whole module of cryptography.
 */
function freshEpoch(): string {
  return [...kernelChance(26)].map((byte) => '0123456789abcdefghjkmnpqrstvwxyz'[byte % 32]).join('')
}

function kernelChance(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  const fd = openSync('/dev/urandom', 'r')
  try {
    readSync(fd, bytes) // the kernel gives as much as is asked for, up to 256 bytes
  } finally {
    closeSync(fd)
  }
  return bytes
}

function writeHead(path: string, epoch: string): void {
  const fd = openSync(path, constants.O_WRONLY) // not for appending, which would ignore the position
  try {
    writeSync(fd, segmentHead(epoch), 0, SEGMENT_HEAD_BYTES, 0)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}

/** The whole records of a segment; `epoch` is undefined when its head is damaged. */
function scan(fd: number, first: number): { epoch: string | undefined; size: number; last: number } {
  const buffer = Buffer.allocUnsafe(SCAN_BYTES)
  const epoch = epochOf(buffer.subarray(0, readSync(fd, buffer, 0, SEGMENT_HEAD_BYTES, 0)))
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
