import type { Clock } from '../../../../../shared/kernel/time.ts'

/** Requests of one API that may be on their way at once. */
const AT_ONCE = 4
/** Panels count requests per minute unless their answers show otherwise. */
const USUAL_WINDOW_MS = 60_000
const LEAST_WINDOW_MS = 1000
/** Of a window's requests, what may be used as fast as one likes; the rest is spread over what is left of the window. */
const FREE_SHARE = 0.6
/** Never used, where so many are allowed: people work in the source meanwhile. */
const KEPT_FREE = 5
/** Requests are not spread further than this: a window may be shorter than it is taken for, and only an answer says so. */
const MOST_GAP_MS = 1000

/**
 * How often one API of a source may be asked. Learns from each answer what the source allows, uses most of it, leaves the rest to people, and
 * is silent for as long as the source asks for.
 */
export class RequestBudget {
  readonly #clock: Clock
  readonly #random: () => number
  readonly #waiting: (() => void)[] = []
  #running = 0
  /** What the last answer said; `null`: nothing so far. */
  #allowance: { readonly limit: number; readonly remaining: number } | null = null
  /** What the last answer that said so allows in a window. */
  #limit: number | null = null
  #windowFrom: number
  #windowMs = USUAL_WINDOW_MS
  #lastSent = Number.NEGATIVE_INFINITY
  #silentUntil = Number.NEGATIVE_INFINITY
  throttledMs = 0

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock
    this.#random = random
    this.#windowFrom = clock.monotonicMs()
  }

  /** Resolves when a request may be sent; what it answers is called when that is over. */
  async take(signal: AbortSignal): Promise<() => void> {
    for (;;) {
      signal.throwIfAborted()
      if (this.#running >= AT_ONCE) {
        await this.#nextFree(signal)
        continue
      }
      const waitMs = this.#waitMs()
      if (waitMs <= 0) break
      const from = this.#clock.monotonicMs()
      await this.#clock.sleep(waitMs, signal)
      this.throttledMs += this.#clock.monotonicMs() - from
    }
    this.#running++
    this.#lastSent = this.#clock.monotonicMs()
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#running--
      this.#waiting.shift()?.()
    }
  }

  /** What an answer says of how many requests are left. */
  learn(limit: number, remaining: number): void {
    const before = this.#allowance
    const now = this.#clock.monotonicMs()
    // Answers may overtake each other, but by no more than are on their way.
    const isOver = now >= this.#windowFrom + this.#windowMs
    const isNewWindow = before !== null && remaining > before.remaining + (isOver ? 0 : AT_ONCE * 2)
    if (isNewWindow) {
      this.#windowMs = Math.min(this.#windowMs, Math.max(LEAST_WINDOW_MS, now - this.#windowFrom))
      this.#windowFrom = now
    } else if (before === null) this.#windowFrom = now
    else if (isOver) this.#windowMs = Math.min(USUAL_WINDOW_MS, this.#windowMs * 2)
    this.#allowance = { limit, remaining }
    this.#limit = limit
  }

  /** How many requests the source takes in a minute, as far as its answers say; `null`: they say nothing of it. */
  get perMinute(): number | null {
    return this.#limit === null ? null : Math.round((this.#limit * 60_000) / this.#windowMs)
  }

  /** For how long nothing is sent yet; 0: one may ask. */
  get silentMs(): number {
    return Math.max(0, this.#silentUntil - this.#clock.monotonicMs())
  }

  /** Nothing is sent before that time is over. A little more is added, so that many clients do not come back at once. */
  silence(ms: number): void {
    const now = this.#clock.monotonicMs()
    const until = now + ms * (1 + this.#random() / 10)
    this.#silentUntil = Math.max(this.#silentUntil, until)
    // The source counts anew from there.
    this.#windowMs = Math.max(LEAST_WINDOW_MS, Math.min(USUAL_WINDOW_MS, Math.max(ms, now + ms - this.#windowFrom)))
    this.#windowFrom = this.#silentUntil
    this.#allowance = null
  }

  #waitMs(): number {
    const now = this.#clock.monotonicMs()
    if (now < this.#silentUntil) return this.#silentUntil - now
    if (this.#allowance === null) return 0
    const { limit, remaining } = this.#allowance
    const left = remaining - this.#running
    const end = this.#windowFrom + this.#windowMs
    // Beyond its end nobody knows what is left: one request finds out.
    if (now >= end) return this.#running === 0 ? 0 : Math.max(1, this.#lastSent + LEAST_WINDOW_MS - now)
    if (left > limit * (1 - FREE_SHARE)) return 0
    const kept = Math.min(KEPT_FREE, Math.floor(limit / 10))
    if (left <= kept) return end - now
    return this.#lastSent + Math.min(MOST_GAP_MS, (end - now) / (left - kept)) - now
  }

  async #nextFree(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done)
        const at = this.#waiting.indexOf(done)
        if (at !== -1) this.#waiting.splice(at, 1)
        resolve()
      }
      signal.addEventListener('abort', done)
      this.#waiting.push(done)
    })
  }
}
