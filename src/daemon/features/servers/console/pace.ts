import type { Clock } from '../../../../shared/kernel/time.ts'

const SECOND = 1000

/** What one viewer may be sent in a second. */
export interface OutputLimits {
  readonly lines: number
  readonly bytes: number
}

/**
 * Spreads one viewer's output over time: after a quiet time a second's worth goes out at once, then at the
 * rate that the limits allow. It only ever says "later"; nothing is dropped.
 */
export class Pace {
  readonly #clock: Clock
  readonly #limits: () => OutputLimits
  /** What was sent is paid for up to this moment. */
  #paidMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, limits: () => OutputLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** How long until more may be sent; 0 when it may be now. */
  waitMs(nowMs: number = this.#clock.monotonicMs()): number {
    return Math.max(0, this.#paidMs - nowMs)
  }

  /** Counts what is being sent. */
  spend(lines: number, bytes: number, nowMs: number = this.#clock.monotonicMs()): void {
    const limits = this.#limits()
    const cost = SECOND * Math.max(lines / limits.lines, bytes / limits.bytes)
    this.#paidMs = Math.max(this.#paidMs, nowMs - SECOND) + cost
  }
}
