/** A few places, which are taken in the order in which they were asked for. */
export class Places {
  readonly #waiting: (() => void)[] = []
  #free: number

  constructor(count: number) {
    this.#free = count
  }

  /** Works in a place, as soon as there is one; `work` learns whether it had to wait for that. */
  async within<T>(work: (hasWaited: boolean) => Promise<T>): Promise<T> {
    const mustWait = this.#free === 0
    if (mustWait) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#free -= 1
    try {
      return await work(mustWait)
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }
}
