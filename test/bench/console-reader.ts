/** What came of a console since the measuring began. `delays[ms]` counts lines; the last entry is for all later ones. */
export interface Seen {
  readonly lines: number
  /** Numbers that were passed over. */
  readonly lost: number
  /** Lines whose number was not above the one before. */
  readonly disordered: number
  readonly delays: readonly number[]
}

/** The lines of a piece of the stream: numbers, and how many lines bear which timestamp. */
interface Page {
  readonly first: number
  readonly last: number
  readonly lines: number
  readonly lost: number
  readonly disordered: number
  readonly stamps: readonly (readonly [ms: number, lines: number])[]
}

const MOST_MS = 10_000
const MOST_PAGES = 64
const END = Buffer.from('\n\n')
/** A frame of a line: its number in the id, its time in the data. */
const LINE = /id: [0-9a-z]+-(\d+)\nevent: console\ndata: .*"timestamp":"([^"]+)"/

/**
 * Reads a console stream as raw bytes and checks every line's number. Viewers of one console get the same bytes, so a piece
 * that another one has parsed already is recognised by comparing it: thousands of viewers fit into one process.
 */
export class ConsoleReader {
  readonly #delays: Float64Array
  readonly #pages: Map<number, { bytes: Buffer; page: Page }>
  #rest: Buffer = Buffer.alloc(0)
  #last = 0
  #lines = 0
  #lost = 0
  #disordered = 0

  static delayCounts(): Float64Array {
    return new Float64Array(MOST_MS + 1)
  }

  static sharedPages(): Map<number, { bytes: Buffer; page: Page }> {
    return new Map()
  }

  constructor(delays: Float64Array, pages: Map<number, { bytes: Buffer; page: Page }>) {
    this.#delays = delays
    this.#pages = pages
  }

  get seen(): Omit<Seen, 'delays'> {
    return { lines: this.#lines, lost: this.#lost, disordered: this.#disordered }
  }

  begin(): void {
    this.#lines = 0
    this.#lost = 0
    this.#disordered = 0
  }

  /** Takes bytes that arrived at `nowMs`; whether there has ever been a line. */
  take(chunk: Buffer, nowMs: number): boolean {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const end = bytes.lastIndexOf(END)
    this.#rest = Buffer.from(bytes.subarray(end < 0 ? 0 : end + 2))
    // What follows the last frame is mostly the end of an HTTP chunk, which holds nothing to keep.
    if (this.#rest.equals(CHUNK_END)) this.#rest = NOTHING
    if (end >= 0) this.#count(this.#parsed(bytes.subarray(0, end + 2)), nowMs)
    return this.#last > 0
  }

  #count(page: Page, nowMs: number): void {
    if (page.lines === 0) return
    this.#lines += page.lines
    this.#lost += page.lost
    this.#disordered += page.disordered
    if (this.#last > 0 && page.first > this.#last + 1) this.#lost += page.first - this.#last - 1
    if (page.first <= this.#last) this.#disordered += 1
    this.#last = page.last
    for (const [stamp, lines] of page.stamps) {
      const delay = Math.min(MOST_MS, Math.max(0, nowMs - stamp))
      this.#delays[delay] = (this.#delays[delay] ?? 0) + lines
    }
  }

  #parsed(bytes: Buffer): Page {
    const known = this.#pages.get(bytes.length)
    if (known?.bytes.equals(bytes) === true) return known.page
    const page = parse(bytes.toString('utf8'))
    this.#pages.delete(bytes.length)
    this.#pages.set(bytes.length, { bytes: Buffer.from(bytes), page })
    const [oldest] = this.#pages.keys()
    if (this.#pages.size > MOST_PAGES && oldest !== undefined) this.#pages.delete(oldest)
    return page
  }
}

const NOTHING = Buffer.alloc(0)
const CHUNK_END = Buffer.from('\r\n')

function parse(text: string): Page {
  const stamps = new Map<number, number>()
  let [first, last, lines, lost, disordered] = [0, 0, 0, 0, 0]
  for (const frame of text.split('\n\n')) {
    const [, number, time] = LINE.exec(frame) ?? []
    if (number === undefined || time === undefined) continue
    const seq = Number(number)
    const stamp = Date.parse(time)
    if (lines === 0) first = seq
    else if (seq <= last) disordered += 1
    else lost += seq - last - 1
    last = seq
    lines += 1
    stamps.set(stamp, (stamps.get(stamp) ?? 0) + 1)
  }
  return { first, last, lines, lost, disordered, stamps: [...stamps] }
}
