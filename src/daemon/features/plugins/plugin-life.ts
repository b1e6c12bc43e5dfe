import type { PluginStatus } from '../../../shared/api/plugins.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import { type Clock, now } from '../../../shared/kernel/time.ts'
import { CallFailure, messageOf } from './failures.ts'
import type { Definition } from './manifest.ts'
import type { PluginRun } from './plugin-run.ts'

const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 30_000
/** A process that worked for so long was well: its end is the first failure again. */
const STABLE_MS = 60_000
/** Failures in a row after which a plugin is given up. */
const MOST_FAILURES = 5
const BUSY_PAUSE_MS = 200

/** What a life needs from around it. */
export interface LifeSurroundings {
  readonly clock: Clock
  /** Makes the next process; fails where the configuration cannot be opened. */
  readonly makeRun: () => PluginRun
  /** The process ended, or could not be loaded, although nobody asked for it. */
  readonly onFailure: (reason: string, givenUp: boolean) => void
}

/** A plugin that is wanted: it is kept running, started again with growing pauses, and given up in the end. */
export class PluginLife {
  readonly definition: Definition
  readonly #around: LifeSurroundings
  readonly #stopping = new AbortController()
  readonly #listeners = new Set<() => void>()
  #status: PluginStatus = 'loading'
  #error: string | null = null
  #loadedAt: IsoTime | null = null
  #run: PluginRun | undefined
  #keeping: Promise<void> = Promise.resolve()

  constructor(definition: Definition, around: LifeSurroundings) {
    this.definition = definition
    this.#around = around
  }

  get status(): PluginStatus {
    return this.#status
  }

  /** Why it does not work, as a sentence part. */
  get error(): string | null {
    return this.#error
  }

  get loadedAt(): IsoTime | null {
    return this.#loadedAt
  }

  /** Starts it once; fails with the reason when it cannot be loaded, and then it is in `error` for good. */
  async begin(): Promise<void> {
    let run: PluginRun
    try {
      run = await this.#attempt()
    } catch (error) {
      this.#set('error', messageOf(error))
      throw error
    }
    this.#keeping = this.#keep(run)
  }

  /** Starts it, and if need be again; never fails. */
  beginPatiently(): void {
    this.#keeping = this.#keep(undefined)
  }

  /** Ends it; resolves when nothing of it is left. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#run?.stop()
    await this.#keeping
    this.#set('disabled', null)
  }

  /** Calls a handler of the working process. Fails with a CallFailure. */
  async call(handler: string, input: unknown, timeoutMs: number): Promise<unknown> {
    if (this.#run === undefined || this.#status !== 'enabled') {
      throw new CallFailure('gone', this.#error ?? 'it is being started')
    }
    return this.#run.call(handler, input, timeoutMs)
  }

  /** The same for what can wait: comes again while the process is busy with other calls. */
  async callPatiently(handler: string, input: unknown, timeoutMs: number): Promise<unknown> {
    for (;;) {
      try {
        return await this.call(handler, input, timeoutMs)
      } catch (error) {
        // When it ends, the pause does too: without an end here, the daemon would do nothing else any more.
        if (!(error instanceof CallFailure) || error.end !== 'busy' || this.#stopping.signal.aborted) throw error
        await this.#around.clock.sleep(BUSY_PAUSE_MS, this.#stopping.signal)
      }
    }
  }

  /** Resolves when it works; false when it never will again. */
  async ready(): Promise<boolean> {
    while (this.#status === 'loading') {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          this.#listeners.delete(done)
          resolve()
        }
        this.#listeners.add(done)
      })
    }
    return this.#status === 'enabled'
  }

  async #keep(first: PluginRun | undefined): Promise<void> {
    const { clock, onFailure } = this.#around
    const { signal } = this.#stopping
    let run = first
    for (let failures = 0; !signal.aborted; ) {
      const startedMs = clock.monotonicMs()
      const reason = await this.#live(run)
      run = undefined
      if (signal.aborted) return
      failures = clock.monotonicMs() - startedMs >= STABLE_MS ? 1 : failures + 1
      const givenUp = failures >= MOST_FAILURES
      this.#set(givenUp ? 'error' : 'loading', givenUp ? `given up after ${failures} failures: ${reason}` : reason)
      onFailure(reason, givenUp)
      if (givenUp) return
      await clock.sleep(Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1)), signal)
    }
  }

  /** One process, from its start to its end; why it ended. */
  async #live(loaded: PluginRun | undefined): Promise<string> {
    try {
      const run = loaded ?? (await this.#attempt())
      return await run.ended
    } catch (error) {
      return messageOf(error)
    }
  }

  async #attempt(): Promise<PluginRun> {
    const run = this.#around.makeRun()
    this.#run = run
    await run.load()
    this.#loadedAt = now(this.#around.clock)
    this.#set('enabled', null)
    return run
  }

  #set(status: PluginStatus, error: string | null): void {
    this.#status = status
    this.#error = error
    for (const listener of this.#listeners) listener()
  }
}
