import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'

const WINDOW_MS = 60_000
const MOST_COUNTERS = 10_000

/** Counts console commands per caller and server; the allowance fills up evenly over a minute. */
export class CommandLimit {
  readonly #clock: Clock
  /** What is used up of each allowance, and when that was so. */
  readonly #used = new Map<string, { used: number; atMs: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Counts one command; throws RATE_LIMITED when `perMinute` are used up. */
  take(userId: string, serverId: string, perMinute: number): void {
    const key = `${userId} ${serverId}`
    const now = this.#clock.monotonicMs()
    const before = this.#used.get(key)
    const regained = before === undefined ? 0 : ((now - before.atMs) / WINDOW_MS) * perMinute
    const used = Math.max(0, (before?.used ?? 0) - regained)
    if (used + 1 > perMinute) {
      const retryAfterSeconds = Math.max(1, Math.ceil(((used + 1 - perMinute) / perMinute) * (WINDOW_MS / 1000)))
      throw new PanelError('RATE_LIMITED', `Too many console commands; try again in ${retryAfterSeconds} s`, {
        meta: { retryAfterSeconds, limit: perMinute },
      })
    }
    this.#used.delete(key) // so that the map is ordered by the last use
    this.#used.set(key, { used: used + 1, atMs: now })
    const oldest = this.#used.keys().next()
    if (this.#used.size > MOST_COUNTERS && oldest.done !== true) this.#used.delete(oldest.value)
  }
}
