import type { LineStream } from '../../../shared/protocol/console.ts'

/**
 * The console log on disk. A segment is a file `<first number, 16 digits>.log`: a head of 32 bytes (6 of magic, 26 of epoch),
 * then records without padding. A record is a head of 20 bytes and the line's raw bytes:
 *
 * | bytes | what |
 * |---|---|
 * | 0-3 | length of the text |
 * | 4 | mark 0xA7 |
 * | 5 | stream: 0 stdout, 1 stderr, 2 stdin, 3 system |
 * | 6 | flags |
 * | 7 | 0 |
 * | 8-13 | milliseconds since the epoch |
 * | 14-19 | number of the line |
 *
 * All numbers are little-endian. Length prefixes make it safe for any byte in the text. A killed writer leaves a prefix of
 * what it wrote, so a record that passes the end of the file is torn; mark and number find blocks that a power cut left
 * unwritten. A checksum would protect nothing that these two do not, at the cost of touching every byte twice.
 */
export const SEGMENT_HEAD_BYTES = 32
export const RECORD_HEAD_BYTES = 20
/** A line's text is cut after so many bytes; the rest follows under the next numbers. */
export const MAX_LINE_BYTES = 16 * 1024
/** `LINE_PARTIAL` of shared/frames.ts, repeated because the holder does not load zod; a test compares the two. */
export const PARTIAL = 1

const MAGIC = 'PLOG1\n'
const EPOCH_BYTES = 26
const MARK = 0xa7
const STREAMS: readonly LineStream[] = ['stdout', 'stderr', 'stdin', 'system']

/** One record as it lies in a buffer; the text begins at `textStart` and ends before `end`. */
export interface RecordView {
  readonly seq: number
  readonly ms: number
  readonly stream: LineStream
  readonly flags: number
  readonly textStart: number
  readonly end: number
}

/** What stands before a record's text. */
export interface RecordHead {
  readonly seq: number
  readonly ms: number
  readonly stream: LineStream
  readonly flags: number
  readonly textBytes: number
}

/** The head of a new segment. */
export function segmentHead(epoch: string): Buffer {
  if (Buffer.byteLength(epoch) !== EPOCH_BYTES) throw new RangeError(`an epoch has ${EPOCH_BYTES} characters: ${epoch}`)
  return Buffer.from(MAGIC + epoch, 'latin1')
}

/** The epoch of a segment by its first bytes, `undefined` when they are no head. */
export function epochOf(head: Buffer): string | undefined {
  if (head.length < SEGMENT_HEAD_BYTES || head.toString('latin1', 0, MAGIC.length) !== MAGIC) return undefined
  return head.toString('latin1', MAGIC.length, SEGMENT_HEAD_BYTES)
}

/** Writes a record's head into `into` at `at`. */
export function writeRecordHead(into: Buffer, at: number, head: RecordHead): void {
  into.writeUInt32LE(head.textBytes, at)
  into[at + 4] = MARK
  into[at + 5] = STREAMS.indexOf(head.stream)
  into[at + 6] = head.flags
  into[at + 7] = 0
  into.writeUIntLE(head.ms, at + 8, 6)
  into.writeUIntLE(head.seq, at + 14, 6)
}

/**
 * The record at `at` when all of it lies before `length` and it has the number `seq`; `torn` when it is cut off or is none,
 * `more` when only its end is missing from the buffer.
 */
export function readRecord(
  from: Buffer,
  at: number,
  expect: { seq: number; length: number },
): RecordView | 'torn' | 'more' {
  if (at + RECORD_HEAD_BYTES > expect.length) return 'more'
  const textBytes = from.readUInt32LE(at)
  const stream = STREAMS[from[at + 5] ?? 255]
  if (from[at + 4] !== MARK || stream === undefined || textBytes > MAX_LINE_BYTES) return 'torn'
  const seq = from.readUIntLE(at + 14, 6)
  if (seq !== expect.seq) return 'torn'
  const textStart = at + RECORD_HEAD_BYTES
  if (textStart + textBytes > expect.length) return 'more'
  return {
    seq,
    ms: from.readUIntLE(at + 8, 6),
    stream,
    flags: from[at + 6] ?? 0,
    textStart,
    end: textStart + textBytes,
  }
}

/** A record's text for people: UTF-8 with replacement, without NUL and the C0 controls but TAB and ESC. */
export function readText(from: Buffer, record: Pick<RecordView, 'textStart' | 'end'>): string {
  const text = from.toString('utf8', record.textStart, record.end)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to remove
  return text.replace(/[\x00-\x08\x0a-\x1a\x1c-\x1f]/g, '')
}
