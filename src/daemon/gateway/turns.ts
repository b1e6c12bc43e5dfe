import { setImmediate } from 'node:timers/promises'

/**
 * Lets a few of many pieces of work run at a time, of which one begins in each round of the event loop, and everything else of the process
 * between two of them: hundreds of agents come back in the same moment, and whoever asks something of the API then waits for one of them,
 * not for all.
 */
export class Turns {
  readonly #most: number
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** The round in which the last one began. */
  #round: Promise<void> = Promise.resolve()

  /** At most so many at a time. */
  constructor(most: number) {
    this.#most = most
  }

  /** Runs `work` when it is its turn, in the order in which this was called; answers what it answers. */
  async run<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.#running >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    this.#round = this.#round.then(() => setImmediate())
    await this.#round
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next() // which takes this place
    }
  }
}
