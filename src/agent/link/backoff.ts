import { GATEWAY_CLOSE } from '../../shared/protocol/frames.ts'

const BASE_MS = 500
const MAX_MS = 30_000
/** A daemon that was ended is mostly back within seconds: so many attempts are not further apart than a second. */
const QUICK_ATTEMPTS = 10
const QUICK_MS = 1000
const STABLE_MS = 10_000
const REVOKED_FIRST_MS = 60_000
const REVOKED_MAX_MS = 15 * 60_000
const REPLACED_MS = 5 * 60_000
const VERSION_MS = 10 * 60_000

/** How a connection, or the attempt at one, ended. */
export interface LinkEnd {
  /** The close code of the socket, or the HTTP status of a refused upgrade. */
  readonly code: number | null
  readonly retryAfterMs: number | null
  /** How long the connection had been ready. */
  readonly readyMs: number
}

/** Decides how long to wait before the next connection. */
export class Backoff {
  readonly #random: () => number
  #attempt = 0
  #revoked = 0

  constructor(random: () => number) {
    this.#random = random
  }

  /**
   * Full jitter from 0.5 s to 1 s for ten attempts and doubling to 30 s after them, from the start again after ten seconds of being ready. A refused key waits from
   * one minute up to fifteen, a node that another machine has taken over five, an agent of a wrong version ten.
   */
  next(end: LinkEnd): number {
    if (end.readyMs >= STABLE_MS) this.#attempt = 0
    if (end.readyMs > 0) this.#revoked = 0
    const { code } = end
    if (code === GATEWAY_CLOSE.keyRevoked || code === 401 || code === 403) {
      const waitMs = Math.min(REVOKED_MAX_MS, REVOKED_FIRST_MS * 2 ** this.#revoked++)
      return Math.max(waitMs, end.retryAfterMs ?? 0)
    }
    if (code === GATEWAY_CLOSE.replaced) return REPLACED_MS
    if (code === GATEWAY_CLOSE.version || code === 426) return Math.max(VERSION_MS, end.retryAfterMs ?? 0)
    const attempt = this.#attempt++
    const most = attempt < QUICK_ATTEMPTS ? QUICK_MS : MAX_MS
    const ceiling = Math.min(most, BASE_MS * 2 ** (attempt < QUICK_ATTEMPTS ? attempt : attempt - QUICK_ATTEMPTS + 2))
    const jittered = Math.round(ceiling * this.#random())
    // Spread the return of many agents that all got the same time.
    return end.retryAfterMs === null ? jittered : end.retryAfterMs + jittered
  }
}
