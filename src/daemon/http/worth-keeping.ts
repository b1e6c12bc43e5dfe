/** Keys of which something is known, some 200 bytes each; the least recently asked are forgotten, and count as new again. */
const MOST = 10_000
const LONGEST_WAIT = 64

interface Known {
  /** How often it has to be asked for until its answer is kept again. */
  left: number
  wait: number
}

/**
 * Says which answers are kept: those that are asked for again before they are old. Each that is kept for nothing has to be collected, which costs
 * more than to make a small one: what is asked for once is not kept, and of what went old without having been given again only every second, fourth
 * and so on is, until one is.
 */
export class WorthKeeping {
  readonly #keys = new Map<string, Known>()

  /** Asked for, and not there: whether the answer that is made now is to be kept. */
  isWorth(key: string): boolean {
    const known = this.#keys.get(key) ?? { left: 1, wait: 1 }
    this.#keys.delete(key) // and back at the end: the first of the map is the one not asked for for longest
    this.#keys.set(key, known)
    const [oldest] = this.#keys.keys()
    if (this.#keys.size > MOST && oldest !== undefined) this.#keys.delete(oldest)
    if (known.left === 0) return true
    known.left -= 1
    return false
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
