import { createHash } from 'node:crypto'
import type { MigrationDeps } from './deps.ts'
import type { MigrationRow } from './rows.ts'
import type { Source } from './source/source.ts'
import { openAccess } from './source-keys.ts'

/** One open source per migration, so that all of its steps share what the source lets one ask. */
export class OpenSources {
  readonly #deps: Pick<MigrationDeps, 'vault' | 'openSource'>
  readonly #open = new Map<string, { readonly keys: string; readonly source: Promise<Source> }>()
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
    this.#open.set(job.id, { keys, source })
    source.catch(() => this.#open.delete(job.id)) // whoever awaits it gets the reason
    return source
  }

  /** Closes that of a migration that has ended. */
  async end(jobId: string): Promise<void> {
    const open = this.#open.get(jobId)
    this.#open.delete(jobId)
    const source = await open?.source.catch(() => undefined) // one that did not open needs no closing
    await source?.close()
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#open.keys()].map((jobId) => this.end(jobId)))
  }
}
