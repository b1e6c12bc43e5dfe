import type { z } from 'zod'
import type { UpdateState, UpdateStatus } from '../../../../shared/api/updates.ts'
import { type Clock, type IsoTime, isoTime, now } from '../../../../shared/kernel/time.ts'
import type { Log } from '../../../core/log.ts'
import { FeedError, type Release, readFeed } from './feed.ts'
import { findOrigin, isContainer } from './origin.ts'
import { isNewer } from './version-order.ts'

/** The first start of another version than the one before. */
export interface FinishedUpdate {
  readonly from: string
  readonly startedAt: IsoTime
  readonly finishedAt: IsoTime
  readonly log: readonly string[]
}

/** What the knowledge about updates rests on. */
export interface UpdatesOptions {
  readonly version: string
  /** Where releases are announced; without it nobody is asked. */
  readonly feedUrl: string | undefined
  readonly clock: Clock
  readonly log: Log
  /** Ends with the daemon. */
  readonly signal: AbortSignal
}

/** An answer of the feed, good or bad, is not asked for again before this. */
const FRESH_MS = 5 * 60_000
const NO_FEED = 'no update feed is configured: set updates.feedUrl in the configuration file'

/** What is known about newer versions, and about the update that this start has completed. */
export class Updates {
  readonly #options: UpdatesOptions
  readonly #origin = findOrigin()
  readonly #isDocker = isContainer()
  #release: Release | undefined
  #problem: string | undefined
  #checked: { readonly at: IsoTime; readonly monotonicMs: number } | undefined
  #checking: { readonly since: IsoTime; readonly done: Promise<void> } | undefined
  #finished: FinishedUpdate | undefined

  constructor(options: UpdatesOptions) {
    this.#options = options
    if (options.feedUrl === undefined) this.#problem = NO_FEED
  }

  /** This start was the first one of another version. */
  completed(update: FinishedUpdate): void {
    this.#finished = update
  }

  /** What is known; asks the feed when the last answer is older than five minutes. Several callers share one question. */
  async status(): Promise<z.input<typeof UpdateStatus>> {
    await this.#check()
    const { version } = this.#options
    const latestVersion = this.#release?.version ?? null
    return {
      currentVersion: version,
      latestVersion,
      updateAvailable: latestVersion !== null && isNewer(latestVersion, version),
      isDocker: this.#isDocker,
      origin: this.#origin,
      lastCheckedAt: this.#checked?.at ?? null,
      checkError: this.#problem ?? null,
      releaseUrl: this.#release?.releaseUrl ?? null,
      publishedAt: this.#release?.publishedAt ?? null,
      autoUpdateEnabled: false,
    }
  }

  state(): z.input<typeof UpdateState> {
    const none = { progress: null, targetVersion: null, startedAt: null, finishedAt: null, error: null, log: [] }
    if (this.#checking !== undefined) {
      return { ...none, state: 'checking', message: 'The update feed is being asked', startedAt: this.#checking.since }
    }
    if (this.#finished === undefined) return { ...none, state: 'idle', message: null }
    const { from, startedAt, finishedAt, log } = this.#finished
    const { version } = this.#options
    const message = `Updated from ${from} to ${version}`
    const done = { state: 'completed', progress: 100, targetVersion: version, error: null } as const
    return { ...done, message, startedAt, finishedAt, log: [...log] }
  }

  async #check(): Promise<void> {
    const { feedUrl, clock } = this.#options
    if (feedUrl === undefined) return
    if (this.#checked !== undefined && clock.monotonicMs() - this.#checked.monotonicMs < FRESH_MS) return
    this.#checking ??= { since: now(clock), done: this.#ask(feedUrl) }
    await this.#checking.done
  }

  async #ask(feedUrl: string): Promise<void> {
    const { clock, signal, log } = this.#options
    try {
      this.#release = await readFeed(feedUrl, { clock, signal })
      this.#problem = undefined
    } catch (error) {
      if (!(error instanceof FeedError)) throw error
      this.#problem = error.message
      // What was read before may be out of date by now, and nobody can know.
      this.#release = undefined
      log.info({ reason: error.message }, 'update check failed')
    } finally {
      this.#checked = { at: isoTime(clock.nowMs()), monotonicMs: clock.monotonicMs() }
      this.#checking = undefined
    }
  }
}
