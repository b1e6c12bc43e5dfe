import type { Clock } from '../shared/kernel/time.ts'

const ROUND_MS = 2000
/** A timer may end a moment before its time. */
const EARLY_MS = 20

interface Waiting {
  readonly dueMs: number
  readonly go: () => void
}

/**
 * The beat that all looks of an agent keep: whoever waits for the next minute waits for the same moment as all others, so that a
 * thousand servers that are looked at every minute wake the process once, and are looked at by one reading of what the kernel says.
 */
export class Rounds {
  readonly #clock: Clock
  readonly #waiting = new Set<Waiting>()
  /** Cuts the wait for the next beat short when nobody waits any more; `undefined` between the waits. */
  #beating: AbortController | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves at the next multiple of `everyMs`, itself one of 2 s, or at once when `signal` aborts. */
  async next(everyMs: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    await new Promise<void>((resolve) => {
      const go = (): void => {
        this.#waiting.delete(one)
        if (this.#waiting.size === 0) this.#beating?.abort()
        signal.removeEventListener('abort', go)
        resolve()
      }
      const nowMs = this.#clock.monotonicMs() + EARLY_MS
      const one = { dueMs: (Math.floor(nowMs / everyMs) + 1) * everyMs, go }
      signal.addEventListener('abort', go)
      this.#waiting.add(one)
      if (this.#beating === undefined || this.#beating.signal.aborted) void this.#beat()
    })
  }

  /** Beats for as long as somebody waits. */
  async #beat(): Promise<void> {
    const beating = new AbortController()
    this.#beating = beating
    while (!beating.signal.aborted) {
      const nowMs = this.#clock.monotonicMs() + EARLY_MS
      await this.#clock.sleep(ROUND_MS - (nowMs % ROUND_MS) + EARLY_MS, beating.signal)
      const thenMs = this.#clock.monotonicMs() + EARLY_MS
      for (const one of [...this.#waiting]) if (thenMs >= one.dueMs) one.go()
    }
  }
}
