import type { ConsoleLine } from '../../../../shared/protocol/console.ts'
import type { SharedFrames } from '../../../http/sse.ts'
import type { Batch } from './batches.ts'
import { linesOfFrames } from './frames.ts'

/** Bytes that a viewer can be sent, up to line `to`. */
export interface Page {
  readonly bytes: Buffer
  readonly to: number
  /** The same as a piece that other viewers are sent as well, where it is one. */
  readonly shared?: SharedFrames
}

const MOST_LINES = 2000
const MOST_BYTES = 1024 * 1024
/** What is younger than this stays beyond that: in a flood, viewers who are held up for a moment find it here. */
const YOUNG_MS = 1500
const MOST_YOUNG_BYTES = 16 * 1024 * 1024
const FRAME_END = Buffer.from('\n\n')

/**
 * The newest lines of one server, without a hole, as the bytes that viewers are sent: at most 2,000 or 1 MiB, and beyond that what
 * is younger than 1.5 s, up to 16 MiB; never less than the last batch.
 */
export class Ring {
  /** Those before `#first` are gone. */
  #batches: (Batch & { readonly atMs: number })[] = []
  #first = 0
  #lines = 0
  #bytes = 0

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes
  }

  /** The number of the first held line; `undefined`: the ring is empty. */
  get first(): number | undefined {
    return this.#batches[this.#first]?.from
  }

  append(batch: Batch, nowMs: number): void {
    this.#batches.push({ atMs: nowMs, ...batch })
    this.#lines += linesOf(batch)
    this.#bytes += batch.chunk.length
    while (this.#first < this.#batches.length - 1) {
      const oldest = this.#batches[this.#first]
      if (oldest === undefined || !this.#isTooMuch(nowMs - oldest.atMs)) break
      this.#lines -= linesOf(oldest)
      this.#bytes -= oldest.chunk.length
      this.#first += 1
    }
    if (this.#first * 2 < this.#batches.length) return
    this.#batches.splice(0, this.#first)
    this.#first = 0
  }

  clear(): void {
    this.#batches = []
    this.#first = 0
    this.#lines = 0
    this.#bytes = 0
  }

  /** The frames after line `seq`, whole lines up to `maxBytes` (one line at least); `undefined` when they are not held. */
  after(seq: number, maxBytes: number): Page | undefined {
    const index = this.#find(seq + 1)
    const batch = index === undefined ? undefined : this.#batches[index]
    if (index === undefined || batch === undefined) return undefined
    const begun = cut(batch, seq, maxBytes)
    if (begun.to !== batch.to) return begun
    const pieces = [begun.bytes]
    let { to } = begun
    let size = begun.bytes.length
    for (let i = index + 1; i < this.#batches.length; i++) {
      const next = this.#batches[i]
      size += next?.bytes.length ?? 0
      if (next === undefined || size > maxBytes) break
      pieces.push(next.bytes)
      to = next.to
    }
    return pieces.length === 1 ? begun : { bytes: Buffer.concat(pieces), to }
  }

  /** All held lines, oldest first. */
  lines(): ConsoleLine[] {
    return this.#batches.slice(this.#first).flatMap(({ bytes }) => linesOfFrames(bytes))
  }

  #isTooMuch(oldestMs: number): boolean {
    if (this.#bytes > MOST_YOUNG_BYTES) return true
    return oldestMs > YOUNG_MS && (this.#lines > MOST_LINES || this.#bytes > MOST_BYTES)
  }

  #find(seq: number): number | undefined {
    let low = this.#first
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

function linesOf({ from, to }: Batch): number {
  return to - from + 1
}

/** What of the batch follows line `seq`, whole lines up to `maxBytes`. */
function cut(batch: Batch, seq: number, maxBytes: number): Page {
  const { bytes, from, to } = batch
  if (seq < from && bytes.length <= maxBytes) return { bytes, to, shared: batch }
  let start = 0
  for (let line = from; line <= seq; line++) start = endOfFrame(bytes, start)
  if (bytes.length - start <= maxBytes) return { bytes: bytes.subarray(start), to }
  let last = Math.max(from, seq + 1)
  let end = endOfFrame(bytes, start)
  while (last < to) {
    const next = endOfFrame(bytes, end)
    if (next - start > maxBytes) break
    end = next
    last += 1
  }
  return { bytes: bytes.subarray(start, end), to: last }
}

/** Where the frame ends that begins there: JSON has no line end within it. */
function endOfFrame(bytes: Buffer, start: number): number {
  return bytes.indexOf(FRAME_END, start) + FRAME_END.length
}
