import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'

const WINDOW_MS = 60_000
const PER_MINUTE = 30
const MOST_COUNTERS = 10_000

/** Counts what each account reports: 30 in any minute. */
export class ReportLimit {
  readonly #clock: Clock
  /** When the last reports of an account came, oldest first. */
  readonly #times = new Map<string, number[]>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts one report; throws RATE_LIMITED when 30 came within the last minute. */
  take(userId: string): void {
    const now = this.#clock.monotonicMs()
    const times = (this.#times.get(userId) ?? []).filter((at) => at > now - WINDOW_MS)
    const [first] = times
    if (first !== undefined && times.length >= PER_MINUTE) {
      const retryAfterSeconds = Math.max(1, Math.ceil((first + WINDOW_MS - now) / 1000))
      throw new PanelError('RATE_LIMITED', `Too many reports; try again in ${retryAfterSeconds} s`, {
        meta: { retryAfterSeconds, limit: PER_MINUTE },
      })
    }
    this.#times.delete(userId) // so that the map is ordered by the last use
    this.#times.set(userId, [...times, now])
    const oldest = this.#times.keys().next()
    if (this.#times.size > MOST_COUNTERS && oldest.done !== true) this.#times.delete(oldest.value)
  }
}
