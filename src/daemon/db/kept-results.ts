import type { CompiledQuery, Kysely } from 'kysely'
import type { Schema } from './schema.ts'
import type { ConnectionSource } from './sqlite/dialect.ts'
import { SqliteQueries } from './sqlite/queries.ts'
import type { TableChanges } from './table-changes.ts'

const MOST = 500

interface Kept {
  readonly rows: readonly unknown[]
  readonly tables: readonly string[]
  readonly since: number
}

/** Results of queries as long as none of their tables changes: totals of lists, definitions of templates. The least recently used go first. */
export class KeptResults {
  readonly #changes: Pick<TableChanges, 'moment' | 'unmoved' | 'readBy'>
  readonly #kept = new Map<string, Kept>()

  constructor(changes: Pick<TableChanges, 'moment' | 'unmoved' | 'readBy'>) {
    this.#changes = changes
  }

  async rowsOf<O>(query: CompiledQuery<O>, run: () => Promise<readonly O[]>): Promise<readonly O[]> {
    const key = `${query.sql} ${JSON.stringify(query.parameters)}`
    const since = this.#changes.moment()
    const known = this.#kept.get(key)
    this.#kept.delete(key)
    if (known !== undefined && since !== undefined && this.#changes.unmoved(known.tables, known.since)) {
      this.#kept.set(key, known) // at the end: the first of the map is the one unused for longest
      return known.rows as readonly O[] // of the same query
    }
    const rows = await run()
    if (since === undefined) return rows
    this.#kept.set(key, { rows, tables: this.#changes.readBy(query.sql), since })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest)
    return rows
  }
}

/** Queries outside of transactions, which may be answered by what is kept. */
export class KeepingQueries extends SqliteQueries {
  readonly #results: KeptResults
  readonly #note: (sql: string) => void

  constructor(source: ConnectionSource, { results, note }: { results: KeptResults; note: (sql: string) => void }) {
    super(source)
    this.#results = results
    this.#note = note
  }

  async kept<O>(query: CompiledQuery<O>): Promise<readonly O[]> {
    this.#note(query.sql)
    return this.#results.rowsOf(query, async () => (await this.executeQuery<O>(query)).rows)
  }
}

/**
 * The rows of a query, which are read again only when one of its tables has changed. For small results of queries that cost much or are
 * asked again and again; they belong to all who ask, and must not be changed. In a transaction it is read each time.
 */
export async function keptRows<O>(
  q: Kysely<Schema>,
  query: { compile(): CompiledQuery<O> } | CompiledQuery<O>,
): Promise<readonly O[]> {
  const compiled = 'compile' in query ? query.compile() : query
  return q instanceof KeepingQueries ? q.kept(compiled) : (await q.executeQuery(compiled)).rows
}
