import { createHash } from 'node:crypto'
import { keepYoungSmall } from '../../../../shared/platform/collect.ts'
import type { MigrationDeps } from './deps.ts'
import type { MigrationRow } from './rows.ts'
import type { Source } from './source/source.ts'
import { openAccess } from './source-keys.ts'

interface OpenSource {
  readonly keys: string
  readonly source: Promise<Source>
  /** Thousands of answers are read while it is open. */
  readonly letYoungGrow: () => void
  /** How much of being throttled was reported. */
  saidMs: number
}

/** One open source per migration, so that all of its steps share what the source lets one ask. */
export class OpenSources {
  readonly #deps: Pick<MigrationDeps, 'vault' | 'openSource'>
  readonly #open = new Map<string, OpenSource>()
  readonly #closing = new AbortController()

  constructor(deps: Pick<MigrationDeps, 'vault' | 'openSource'>) {
    this.#deps = deps
  }

  /** That of a migration, opened by its keys; once more when these have changed or it could not be opened. */
  async of(job: Pick<MigrationRow, 'id' | 'keys'>): Promise<Source> {
    const keys = createHash('sha256')
      .update(job.keys ?? '')
      .digest('hex')
    const open = this.#open.get(job.id)
    if (open?.keys === keys) return open.source
    if (open !== undefined) await this.end(job.id)
    const source = this.#deps.openSource(openAccess(this.#deps.vault, job), this.#closing.signal)
    const letYoungGrow = keepYoungSmall()
    this.#open.set(job.id, { keys, source, saidMs: 0, letYoungGrow })
    // Whoever awaits it gets the reason.
    source.catch(() => {
      letYoungGrow()
      this.#open.delete(job.id)
    })
    return source
  }

  /** For how long a source has asked to be left alone since this was asked last. */
  async throttledMs(jobId: string): Promise<number> {
    const open = this.#open.get(jobId)
    const source = await open?.source.catch(() => undefined) // whoever uses it hears why it did not open
    if (open === undefined || source === undefined) return 0
    const ms = source.usage.throttledMs - open.saidMs
    open.saidMs += ms
    return ms
  }

  /** Closes that of a migration that has ended. */
  async end(jobId: string): Promise<void> {
    const open = this.#open.get(jobId)
    this.#open.delete(jobId)
    const source = await open?.source.catch(() => undefined) // one that did not open needs no closing
    open?.letYoungGrow()
    await source?.close()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#open.keys()].map((jobId) => this.end(jobId)))
  }
}
