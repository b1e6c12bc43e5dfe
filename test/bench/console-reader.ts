import { ChunkedBody } from './chunked-body.ts'

/** What came of a console since the measuring began. `delays[ms]` counts lines; the last entry is for all later ones. */
export interface Seen {
  readonly lines: number
  /** Numbers that were passed over. */
  readonly lost: number
  /** Lines whose number was not above the one before. */
  readonly disordered: number
  readonly delays: readonly number[]
}

const MOST_MS = 10_000
const END = Buffer.from('\n\n')
const NOTHING = Buffer.alloc(0)
/** A frame of a line: its number in the id, its time in the data. */
const LINE = /^id: [0-9a-z]+-(\d+)\nevent: console\ndata: .*"timestamp":"([^"]+)"/

/**
 * Reads a console stream as raw bytes and knows the number of every line. Viewers of one console get the same frames: who gets
 * a frame first reads it, and the others compare their bytes with it, so that thousands of viewers, and floods, fit into one
 * process.
 */
export class ConsoleReader {
  readonly #delays: Float64Array
  readonly #known: KnownFrames
  readonly #body = new ChunkedBody((frames) => this.#frames(frames))
  /** The beginning of a frame that is not known. */
  #rest: Buffer = NOTHING
  /** How much of the known frame behind the last line has come. */
  #begun = 0
  #last = 0
  #nowMs = 0
  #lines = 0
  #lost = 0
  #disordered = 0

  static delayCounts(): Float64Array {
    return new Float64Array(MOST_MS + 1)
  }

  constructor(delays: Float64Array, known: KnownFrames) {
    this.#delays = delays
    this.#known = known
  }

  get seen(): Omit<Seen, 'delays'> {
    return { lines: this.#lines, lost: this.#lost, disordered: this.#disordered }
  }

  begin(): void {
    this.#lines = 0
    this.#lost = 0
    this.#disordered = 0
  }

  /** Takes bytes that arrived at `nowMs`, which are only looked at during the call; whether there has ever been a line. */
  take(bytes: Buffer, nowMs: number): boolean {
    this.#nowMs = nowMs
    this.#body.take(bytes)
    return this.#last > 0
  }

  #frames(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const same = this.#rest.length > 0 ? 0 : this.#known.same(this.#last, this.#begun, bytes, at)
      if (same > 0) this.#advance(this.#begun + same)
      at += same > 0 ? same : this.#unknown(bytes, at)
    }
  }

  /** So many bytes behind the last line are as they are known. */
  #advance(bytes: number): void {
    const known = this.#known
    const to = known.endOf(this.#last) + bytes
    let seq = this.#last
    while (seq < known.last && known.endOf(seq + 1) <= to) this.#count(++seq, known.stampOf(seq))
    this.#begun = to - known.endOf(seq)
  }

  /** Takes the next bytes, up to the end of a frame, for one that is not known; returns how many. */
  #unknown(bytes: Buffer, at: number): number {
    const begun = this.#begun > 0 ? this.#known.begun(this.#last, this.#begun) : this.#rest
    this.#begun = 0
    // The two bytes of an end may have come apart.
    const isEnd = begun.at(-1) === 10 && bytes[at] === 10
    const found = isEnd ? at : bytes.indexOf(END, at) + 1
    const stop = found > 0 || isEnd ? found + 1 : bytes.length
    const frame = Buffer.concat([begun, bytes.subarray(at, stop)])
    this.#rest = stop === bytes.length && !frame.subarray(-2).equals(END) ? frame : NOTHING
    if (this.#rest.length === 0) this.#read(frame)
    return stop - at
  }

  #read(frame: Buffer): void {
    const [, number, time] = LINE.exec(frame.toString('utf8')) ?? []
    if (number === undefined || time === undefined) return // a remark, or another event
    const [seq, stamp] = [Number(number), Date.parse(time)]
    this.#known.add(seq, frame, stamp)
    this.#count(seq, stamp)
  }

  #count(seq: number, stamp: number): void {
    this.#lines += 1
    if (this.#last > 0 && seq > this.#last + 1) this.#lost += seq - this.#last - 1
    if (seq <= this.#last) this.#disordered += 1
    this.#last = seq
    const delay = Math.min(MOST_MS, Math.max(0, this.#nowMs - stamp))
    this.#delays[delay] = (this.#delays[delay] ?? 0) + 1
  }
}

/** Older frames are let go: a viewer that is further behind than half of this reads for itself. */
const KEPT_BYTES = 128 * 1024 * 1024
/** A power of two. */
const KEPT_LINES = 2 ** 20

/** The newest frames of one console that anybody has got, one behind the other without a hole. */
export class KnownFrames {
  readonly #bytes = Buffer.allocUnsafe(KEPT_BYTES)
  readonly #ends = new Float64Array(KEPT_LINES)
  readonly #stamps = new Float64Array(KEPT_LINES)
  /** The frames held are those of the lines behind this one. */
  #before = 0
  /** Where the first held byte would lie, if nothing had ever been let go. */
  #start = 0
  last = 0

  /** Where the line's frame ends. */
  endOf(seq: number): number {
    return this.#ends[seq % KEPT_LINES] ?? 0
  }

  stampOf(seq: number): number {
    return this.#stamps[seq % KEPT_LINES] ?? 0
  }

  /** How many bytes from `at` on are those of the frames behind line `seq`, of which `begun` bytes are passed. */
  same(seq: number, begun: number, bytes: Buffer, at: number): number {
    if (seq < this.#before || seq >= this.last) return 0
    const from = this.endOf(seq) + begun
    const length = Math.min(bytes.length - at, this.endOf(this.last) - from)
    if (this.#isSame(from, length, bytes, at)) return length
    // Something stands between the lines: whole frames up to it.
    let to = this.endOf(seq)
    for (let next = seq + 1; next <= this.last; next++) {
      const end = this.endOf(next)
      if (end - from > length || !this.#isSame(from, end - from, bytes, at)) break
      to = end
    }
    return Math.max(0, to - from)
  }

  /** The bytes of the frame behind line `seq` that are passed. */
  begun(seq: number, begun: number): Buffer {
    const from = this.endOf(seq) - this.#start
    return Buffer.from(this.#bytes.subarray(from, from + begun))
  }

  /** Takes a frame behind the newest one; one that leaves out some begins anew. */
  add(seq: number, frame: Buffer, stamp: number): void {
    if (seq <= this.last) return
    if (seq !== this.last + 1) this.#begin(seq - 1)
    if (seq - this.#before >= KEPT_LINES) this.#before = seq - KEPT_LINES + 1
    if (this.endOf(this.last) - this.#start + frame.length > KEPT_BYTES) this.#letGo()
    const end = this.endOf(this.last)
    frame.copy(this.#bytes, end - this.#start)
    this.#ends[seq % KEPT_LINES] = end + frame.length
    this.#stamps[seq % KEPT_LINES] = stamp
    this.last = seq
  }

  #isSame(from: number, length: number, bytes: Buffer, at: number): boolean {
    const start = from - this.#start
    return this.#bytes.compare(bytes, at, at + length, start, start + length) === 0
  }

  #begin(before: number): void {
    this.#before = before
    this.last = before
    this.#start = 0
    this.#ends[before % KEPT_LINES] = 0
  }

  /** Lets go of the older half. */
  #letGo(): void {
    const end = this.endOf(this.last)
    while (end - this.endOf(this.#before) > KEPT_BYTES / 2) this.#before += 1
    const start = this.endOf(this.#before)
    this.#bytes.copyWithin(0, start - this.#start, end - this.#start)
    this.#start = start
  }
}
