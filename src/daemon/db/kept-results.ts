import type { CompiledQuery, Kysely } from 'kysely'
import type { Schema } from './schema.ts'
import type { ConnectionSource } from './sqlite/dialect.ts'
import { SqliteQueries } from './sqlite/queries.ts'
import type { TableChanges } from './table-changes.ts'
import type { Seen } from './table-parts.ts'

const MOST = 500

interface Kept {
  readonly rows: readonly unknown[]
  readonly seen: readonly Seen[]
  readonly since: number
}

/** Whether rows that are added anywhere cannot change this result. */
export type Stays<O> = (rows: readonly O[]) => boolean

/** What is known of changes, by those who read outside of transactions or inside of one. */
export type Sight = Pick<TableChanges['inside'], 'moment' | 'unmoved'>

/** Results of queries as long as none of their tables changes: totals of lists, definitions of templates. The least recently used go first. */
export class KeptResults {
  readonly #readBy: TableChanges['readBy']
  readonly #kept = new Map<string, Kept>()

  /** `readBy` says what a statement reads. */
  constructor(readBy: TableChanges['readBy']) {
    this.#readBy = readBy
  }

  async rowsOf<O>(
    query: CompiledQuery<O>,
    sight: Sight,
    { run, stays }: { run: () => Promise<readonly O[]>; stays: Stays<O> | undefined },
  ): Promise<readonly O[]> {
    const key = `${query.sql} ${JSON.stringify(query.parameters)}`
    const since = sight.moment()
    const known = this.#kept.get(key)
    if (known !== undefined && since !== undefined && sight.unmoved(known.seen, known.since)) {
      this.#kept.delete(key)
      this.#kept.set(key, known) // at the end: the first of the map is the one unused for longest
      return known.rows as readonly O[] // of the same query
    }
    const rows = await run()
    const seen = this.#readBy(query.sql, { stays: stays?.(rows) === true })
    // What a transaction has changed itself may still be undone.
    if (since === undefined || !sight.unmoved(seen, since)) return rows
    this.#kept.delete(key)
    this.#kept.set(key, { rows, seen, since })
    const [oldest] = this.#kept.keys()
    if (this.#kept.size > MOST && oldest !== undefined) this.#kept.delete(oldest)
    return rows
  }
}

/** Queries that may be answered by what is kept. */
export class KeepingQueries extends SqliteQueries {
  readonly #results: KeptResults
  readonly #sight: Sight
  readonly #note: ((sql: string) => void) | undefined

  constructor(source: ConnectionSource, { results, sight }: { results: KeptResults; sight: Sight }) {
    super(source)
    this.#results = results
    this.#sight = sight
    this.#note = source.note
  }

  async kept<O>(query: CompiledQuery<O>, stays?: Stays<O>): Promise<readonly O[]> {
    this.#note?.(query.sql)
    const run = async (): Promise<readonly O[]> => (await this.executeQuery<O>(query)).rows
    return this.#results.rowsOf(query, this.#sight, { run, stays })
  }
}

/**
 * The rows of a query, which are read again only when one of its tables has changed. For small results of queries that cost much or are
 * asked again and again; they belong to all who ask, and must not be changed. A transaction that has changed one of the tables reads it itself.
 */
export async function keptRows<O>(
  q: Kysely<Schema>,
  query: { compile(): CompiledQuery<O> } | CompiledQuery<O>,
  stays?: Stays<O>,
): Promise<readonly O[]> {
  const compiled = 'compile' in query ? query.compile() : query
  return q instanceof KeepingQueries ? q.kept(compiled, stays) : (await q.executeQuery(compiled)).rows
}
