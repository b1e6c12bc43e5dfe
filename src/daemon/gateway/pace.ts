import type { Clock } from '../../shared/kernel/time.ts'

/**
 * Keeps what comes again and again so far apart that what comes meanwhile is done together: a transaction or a look at the queue for a few
 * reports costs as much as one for many. What comes after a pause is done at once.
 */
export class Pace {
  readonly #clock: Clock
  readonly #ms: number
  #lastMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, ms: number) {
    this.#clock = clock
    this.#ms = ms
  }

  /** Resolves when it is time for the next, or when `signal` aborts. */
  async next(signal: AbortSignal): Promise<void> {
    const leftMs = this.#lastMs + this.#ms - this.#clock.monotonicMs()
    if (leftMs > 0) await this.#clock.sleep(leftMs, signal)
    this.#lastMs = this.#clock.monotonicMs()
  }
}
