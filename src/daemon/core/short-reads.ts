/**
 * The requests that are being answered from what is stored, which takes milliseconds: work that comes in hundreds of pieces, and can wait for a moment,
 * lets them pass.
 */
export class ShortReads {
  #underWay = 0
  readonly #waiting = new Set<() => void>()
  /** Called after the end of each. */
  onEnd: (() => void) | undefined

  /** How many there are now. */
  get underWay(): number {
    return this.#underWay
  }

  /** Runs `read` as one of them; answers what it answers. */
  async run<T>(read: () => Promise<T>): Promise<T> {
    this.#underWay += 1
    try {
      return await read()
    } finally {
      this.#underWay -= 1
      if (this.#underWay === 0) for (const pass of this.#waiting) pass()
      this.onEnd?.()
    }
  }

  /** Resolves when none is under way, and after so many milliseconds in any case. */
  passed(mostMs: number): Promise<void> {
    if (this.#underWay === 0 || mostMs <= 0) return Promise.resolve()
    return new Promise((resolve) => {
      const pass = (): void => {
        clearTimeout(timer)
        this.#waiting.delete(pass)
        resolve()
      }
      const timer = setTimeout(pass, mostMs)
      this.#waiting.add(pass)
    })
  }
}
