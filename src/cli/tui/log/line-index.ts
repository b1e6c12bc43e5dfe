import type { Clock } from '../../../shared/kernel/time.ts'
import type { Entry, Ring } from './ring.ts'

/**
 * The places of the lines that pass a test, in order. It is built in slices, newest lines first, so that a screen can show
 * what is found so far and keys are answered between slices.
 */
export class LineIndex {
  readonly #ring: Ring
  readonly #test: (entry: Entry) => boolean
  /** Found before the start, newest first. */
  readonly #older: number[] = []
  /** Found from the start on, oldest first; the first `#head` of them have left the ring. */
  #newer: number[] = []
  #head = 0
  #low: number
  #high: number

  constructor(ring: Ring, test: (entry: Entry) => boolean) {
    this.#ring = ring
    this.#test = test
    this.#low = ring.end
    this.#high = ring.end
  }

  /** Tests lines for at most `budgetMs`; whether some are left. */
  advance(budgetMs: number, clock: Clock): boolean {
    this.#forget()
    const until = clock.monotonicMs() + budgetMs
    for (let steps = 1; ; steps += 1) {
      if (this.#high < this.#ring.end) {
        if (this.#passes(this.#high)) this.#newer.push(this.#high)
        this.#high += 1
      } else if (this.#low > this.#ring.first) {
        this.#low -= 1
        if (this.#passes(this.#low)) this.#older.push(this.#low)
      } else {
        return false
      }
      if (steps % 32 === 0 && clock.monotonicMs() >= until) return true
    }
  }

  get length(): number {
    return this.#older.length + this.#newer.length - this.#head
  }

  /** The place of the `index`-th line that passes, counted from the oldest. */
  at(index: number): number | undefined {
    if (index < 0) return undefined
    if (index < this.#older.length) return this.#older[this.#older.length - 1 - index]
    return this.#newer[this.#head + index - this.#older.length]
  }

  /** How many of the lines that pass stand before a place. */
  rank(place: number): number {
    let low = 0
    let high = this.length
    while (low < high) {
      const middle = (low + high) >> 1
      if ((this.at(middle) ?? Number.POSITIVE_INFINITY) < place) low = middle + 1
      else high = middle
    }
    return low
  }

  /** Whether all lines from a place on have been tested. */
  reaches(place: number): boolean {
    return this.#low <= Math.max(place, this.#ring.first) && this.#high >= this.#ring.end
  }

  /** Whether of the lines before a place the newest have been tested, without a hole up to the oldest one tested. */
  covers(place: number): boolean {
    return this.#high >= Math.min(place, this.#ring.end)
  }

  #passes(at: number): boolean {
    const entry = this.#ring.get(at)
    return entry !== undefined && this.#test(entry)
  }

  /** Drops places that have left the ring. */
  #forget(): void {
    const { first } = this.#ring
    while ((this.#older.at(-1) ?? first) < first) this.#older.pop()
    while ((this.#newer[this.#head] ?? first) < first) this.#head += 1
    if (this.#head > 4096) {
      this.#newer = this.#newer.slice(this.#head)
      this.#head = 0
    }
    if (this.#low < first) this.#low = first
    if (this.#high < first) this.#high = first
  }
}
