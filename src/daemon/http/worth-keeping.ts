/** Keys of which something is known, some 200 bytes each; the least recently asked are forgotten, and count as new again. */
const MOST_KEYS = 10_000
const LONGEST_WAIT = 64

interface Known {
  readonly size: number
  /** How often it has to be asked for until its answer is kept again. */
  left: number
  wait: number
}

/**
 * Says which answers are kept: those that are asked for again before they are old, and before others would have driven them out. Each that is
 * kept for nothing has to be collected, which costs more than to make a small one: what is asked for once is not kept, and of what went old
 * without having been given again only every second, fourth and so on is, until one is.
 */
export class WorthKeeping {
  readonly #keys = new Map<string, Known>()
  readonly #most: number
  /** Of the answers of all keys. */
  #bytes = 0

  /** `most`: how many bytes of answers are kept at once. */
  constructor(most: number) {
    this.#most = most
  }

  /** Asked for, and not there: whether the answer of so many bytes that is made now is to be kept. */
  isWorth(key: string, size: number): boolean {
    const known = this.#keys.get(key)
    const { left, wait } = known ?? { left: 1, wait: 1 }
    this.#bytes += size - (known?.size ?? 0)
    this.#keys.delete(key) // and back at the end: the first of the map is the one not asked for for longest
    this.#keys.set(key, { size, wait, left: Math.max(left - 1, 0) })
    this.#forgetOldest()
    return left === 0
  }

  /** Keys whose answers, and those of all that were asked for since, would not have found room together. */
  #forgetOldest(): void {
    for (const [oldest, { size }] of this.#keys) {
      if (this.#bytes <= this.#most && this.#keys.size <= MOST_KEYS) break
      this.#keys.delete(oldest)
      this.#bytes -= size
    }
  }

  /** The kept answer was given again. */
  given(key: string): void {
    const known = this.#keys.get(key)
    if (known !== undefined) known.wait = 1
  }

  /** The kept answer went old before anybody asked for it. */
  wasted(key: string): void {
    const known = this.#keys.get(key)
    if (known === undefined) return
    known.wait = Math.min(known.wait * 2, LONGEST_WAIT)
    known.left = known.wait
  }
}
