import type { ConsoleLine } from '../../../../shared/protocol/console.ts'
import { type SharedFrames, sharedFrames } from '../../../http/sse.ts'

/** Lines as one piece of bytes that every viewer shares. */
export interface Batch extends SharedFrames {
  readonly from: number
  readonly to: number
  /** Where in `bytes` each line ends. */
  readonly ends: readonly number[]
  /** The same lines as the agent sent them. */
  readonly lines: readonly ConsoleLine[]
}

/** Bytes that a viewer can be sent, up to line `to`. */
export interface Page {
  readonly bytes: Buffer
  readonly to: number
}

/** How much is sent to one viewer at a time. */
export const PAGE_BYTES = 64 * 1024
const MOST_LINES = 2000
const MOST_BYTES = 1024 * 1024

/** The newest lines of one server, without a hole, at most 2,000 or 1 MiB of frames (and never less than the last batch). */
export class Ring {
  #batches: Batch[] = []
  #lines = 0
  #bytes = 0

  /** Bytes held, the lines' own text counted beside their frames. */
  get bytes(): number {
    return this.#bytes * 2
  }

  /** The number of the first held line; `undefined`: the ring is empty. */
  get first(): number | undefined {
    return this.#batches[0]?.from
  }

  append(batch: Batch): void {
    this.#batches.push(batch)
    this.#lines += batch.lines.length
    this.#bytes += batch.bytes.length
    let drop = 0
    while (drop < this.#batches.length - 1 && (this.#lines > MOST_LINES || this.#bytes > MOST_BYTES)) {
      const oldest = this.#batches[drop++]
      this.#lines -= oldest?.lines.length ?? 0
      this.#bytes -= oldest?.bytes.length ?? 0
    }
    if (drop > 0) this.#batches.splice(0, drop)
  }

  clear(): void {
    this.#batches = []
    this.#lines = 0
    this.#bytes = 0
  }

  /** The frames after line `seq`, whole lines up to `maxBytes` (one line at least); `undefined` when they are not held. */
  after(seq: number, maxBytes: number): Page | undefined {
    const index = this.#find(seq + 1)
    const batch = index === undefined ? undefined : this.#batches[index]
    if (index === undefined || batch === undefined) return undefined
    const pieces = [cut(batch, seq, maxBytes)]
    let size = pieces[0]?.bytes.length ?? 0
    for (let i = index + 1; pieces.at(-1)?.to === this.#batches[i - 1]?.to; i++) {
      const next = this.#batches[i]
      if (next === undefined || size + next.bytes.length > maxBytes) break
      pieces.push({ bytes: next.bytes, to: next.to })
      size += next.bytes.length
    }
    const last = pieces.at(-1)
    const [only] = pieces
    if (only === undefined || last === undefined) return undefined
    return { bytes: pieces.length === 1 ? only.bytes : Buffer.concat(pieces.map((piece) => piece.bytes)), to: last.to }
  }

  /** All held lines, oldest first. */
  lines(): ConsoleLine[] {
    return this.#batches.flatMap((batch) => batch.lines)
  }

  #find(seq: number): number | undefined {
    let low = 0
    let high = this.#batches.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.#batches[middle]?.to ?? 0) >= seq) high = middle
      else low = middle + 1
    }
    const batch = this.#batches[low]
    return batch !== undefined && batch.from <= seq ? low : undefined
  }
}

/** Makes batches of at most {@link PAGE_BYTES} (or one line) of lines that follow each other; `frameOf` gives a line's bytes. */
export function* batches(lines: readonly ConsoleLine[], frameOf: (line: ConsoleLine) => string): Generator<Batch> {
  let part: ConsoleLine[] = []
  let frames: string[] = []
  let size = 0
  for (const line of lines) {
    const frame = frameOf(line)
    const bytes = Buffer.byteLength(frame)
    if (part.length > 0 && size + bytes > PAGE_BYTES) {
      yield batchOf(part, frames)
      part = []
      frames = []
      size = 0
    }
    part.push(line)
    frames.push(frame)
    size += bytes
  }
  if (part.length > 0) yield batchOf(part, frames)
}

function batchOf(lines: readonly ConsoleLine[], frames: readonly string[]): Batch {
  const ends: number[] = []
  let end = 0
  for (const frame of frames) {
    end += Buffer.byteLength(frame)
    ends.push(end)
  }
  return { from: lines[0]?.[0] ?? 0, to: lines.at(-1)?.[0] ?? 0, ...sharedFrames(frames.join('')), ends, lines }
}

function cut(batch: Batch, seq: number, maxBytes: number): Page {
  const skipped = Math.max(0, seq + 1 - batch.from)
  const start = skipped === 0 ? 0 : (batch.ends[skipped - 1] ?? 0)
  if (batch.bytes.length - start <= maxBytes) return { bytes: batch.bytes.subarray(start), to: batch.to }
  let count = skipped + 1
  while ((batch.ends[count] ?? Number.POSITIVE_INFINITY) - start <= maxBytes) count++
  return { bytes: batch.bytes.subarray(start, batch.ends[count - 1]), to: batch.from + count - 1 }
}
