import { setImmediate } from 'node:timers/promises'
import type { Clock } from '../../shared/kernel/time.ts'
import type { ShortReads } from '../core/short-reads.ts'

/** How long a piece of work lets reads pass before it begins in any case. */
const PATIENCE_MS = 200

interface TurnsDeps {
  readonly clock: Clock
  /** What is let pass. */
  readonly reads: ShortReads
}

/**
 * Lets a few of many pieces of work run at a time, of which one begins in each round of the event loop, and everything else of the process
 * between two of them: hundreds of agents come back in the same moment, and whoever asks something of the API then waits for one of them,
 * not for all. One begins when no read is under way, as long as it does not wait for too long itself.
 */
export class Turns {
  readonly #most: number
  readonly #deps: TurnsDeps
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** The round in which the last one began. */
  #round: Promise<void> = Promise.resolve()

  /** At most so many at a time. */
  constructor(most: number, deps: TurnsDeps) {
    this.#most = most
    this.#deps = deps
  }

  /** Runs `work` when it is its turn, in the order in which this was called; answers what it answers. */
  async run<T>(work: () => T | Promise<T>): Promise<T> {
    const { clock, reads } = this.#deps
    const latest = clock.monotonicMs() + PATIENCE_MS
    if (this.#running >= this.#most) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    this.#round = this.#round.then(async () => {
      await reads.passed(latest - clock.monotonicMs())
      await setImmediate()
    })
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
