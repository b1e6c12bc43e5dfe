import type { Clock } from '../../../../shared/kernel/time.ts'

const SECOND = 1000

/** What one viewer may be sent in a second. */
export interface OutputLimits {
  readonly lines: number
  readonly bytes: number
}

/** At the latest after so long it is looked whether the limits still are what they were. */
const LOOK_MS = SECOND

/**
 * Spreads one viewer's output over time: after a quiet time a second's worth goes out at once, then at the
 * rate that the limits allow now, whatever they were when it was sent. It only ever says "later"; nothing is dropped.
 */
export class Pace {
  readonly #clock: Clock
  readonly #limits: () => OutputLimits
  /** What was sent and is not paid for yet, at {@link #atMs}. */
  #lines = 0
  #bytes = 0
  #atMs = Number.NEGATIVE_INFINITY
  /** From then on more may be sent, by the limits at {@link #atMs}. */
  #freeMs = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, limits: () => OutputLimits) {
    this.#clock = clock
    this.#limits = limits
  }

  /** How long until more may be sent; 0 when it may be now. */
  waitMs(nowMs: number = this.#clock.monotonicMs()): number {
    if (nowMs < this.#freeMs) this.spend(0, 0, nowMs)
    return Math.max(0, this.#freeMs - nowMs)
  }

  /** Resolves when more may be sent, or when it is aborted. */
  async wait(signal: AbortSignal): Promise<void> {
    for (let waitMs = this.waitMs(); waitMs > 0 && !signal.aborted; waitMs = this.waitMs()) {
      await this.#clock.sleep(Math.min(waitMs, LOOK_MS), signal)
    }
  }

  /** Counts what is being sent. */
  spend(lines: number, bytes: number, nowMs: number = this.#clock.monotonicMs()): void {
    const limits = this.#limits()
    const passed = (nowMs - this.#atMs) / SECOND
    this.#lines = Math.max(0, this.#lines - passed * limits.lines) + lines
    this.#bytes = Math.max(0, this.#bytes - passed * limits.bytes) + bytes
    this.#atMs = nowMs
    this.#freeMs = nowMs + SECOND * (Math.max(this.#lines / limits.lines, this.#bytes / limits.bytes) - 1)
  }
}
