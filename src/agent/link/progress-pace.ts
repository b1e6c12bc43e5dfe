import type { Clock } from '../../shared/kernel/time.ts'
import { GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'

/** Sends the first report at once and the newest one of those that follow now and then, until the work has ended. */
export class ProgressPace {
  readonly #clock: Clock
  readonly #send: (report: unknown) => void
  readonly #over = new AbortController()
  #newest: { readonly report: unknown } | undefined
  #isPausing = false

  constructor(clock: Clock, send: (report: unknown) => void) {
    this.#clock = clock
    this.#send = send
  }

  report(report: unknown): void {
    this.#newest = { report }
    if (!this.#isPausing) void this.#run()
  }

  /** Nothing is sent any more: the end of the work says more than a report. */
  end(): void {
    this.#over.abort()
  }

  async #run(): Promise<void> {
    this.#isPausing = true
    while (this.#newest !== undefined && !this.#over.signal.aborted) {
      const { report } = this.#newest
      this.#newest = undefined
      this.#send(report)
      await this.#clock.sleep(GATEWAY_LIMITS.progressMs, this.#over.signal)
    }
    this.#isPausing = false
  }
}
