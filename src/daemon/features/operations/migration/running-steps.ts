/** What has been asked of a step that runs. */
export type Interruption = 'pause' | 'cancel'

/** The steps that run in this process, so that they hear at once when their migration is paused or cancelled. */
export class RunningSteps {
  readonly #running = new Map<string, { readonly jobId: string; readonly ending: AbortController }>()

  /** Aborts when the step is interrupted; call the function when it has ended. */
  add(jobId: string, stepId: string): { readonly signal: AbortSignal; readonly end: () => void } {
    const key = `${jobId} ${stepId}`
    const ending = new AbortController()
    this.#running.set(key, { jobId, ending })
    return { signal: ending.signal, end: () => void this.#running.delete(key) }
  }

  /** Interrupts all steps of a migration; after the commit of what was asked. */
  interrupt(jobId: string): void {
    for (const one of this.#running.values()) if (one.jobId === jobId) one.ending.abort()
  }
}
