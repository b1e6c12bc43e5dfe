import type { CompiledQuery, Kysely } from 'kysely'
import type { Queries } from './db.ts'
import type { Schema } from './schema.ts'
import type { ConnectionSource } from './sqlite/dialect.ts'
import { cachedBySql } from './sqlite/named-tables.ts'
import { rowsBy, SqliteQueries } from './sqlite/queries.ts'
import type { TableChanges } from './table-changes.ts'
import { keepingTo, type RowsById, type Seen } from './table-parts.ts'

/** Of all results together, each of which counts as a row more. */
const MOST_ROWS = 20_000

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
  /** What a statement reads. */
  readonly readBy: TableChanges['readBy']
  readonly #kept = new Map<string, Kept>()
  /** Statements by numbers: a key with all of its statement is some kilobytes, of which there are thousands. */
  readonly #numberOf = cachedBySql(() => (this.#numbers += 1))
  #numbers = 0
  #rows = 0

  constructor(readBy: TableChanges['readBy']) {
    this.readBy = readBy
  }

  async rowsOf<O>(asked: Asked<O>, sight: Sight): Promise<readonly O[]> {
    const { sql, parameters, run, stays, keepsTo } = asked
    const key = `${this.#numberOf(sql)} ${JSON.stringify(parameters)}`
    const since = sight.moment()
    const known = this.#kept.get(key)
    if (known !== undefined && since !== undefined && sight.unmoved(known.seen, known.since)) {
      this.#kept.delete(key)
      this.#kept.set(key, known) // at the end: the first of the map is the one unused for longest
      return known.rows as readonly O[] // of the same query
    }
    const rows = await run()
    const seen = keepingTo(keepsTo, this.readBy(sql, { stays: stays?.(rows) === true }))
    // What a transaction has changed itself may still be undone.
    if (since === undefined || !sight.unmoved(seen, since)) return rows
    this.#forget(key)
    this.#kept.set(key, { rows, seen, since })
    this.#rows += 1 + rows.length
    for (const oldest of this.#kept.keys()) {
      if (this.#rows <= MOST_ROWS) break
      this.#forget(oldest)
    }
    return rows
  }

  #forget(key: string): void {
    const kept = this.#kept.get(key)
    if (kept === undefined) return
    this.#rows -= 1 + kept.rows.length
    this.#kept.delete(key)
  }
}

/** A query whose rows may be kept. */
interface Asked<O> {
  readonly sql: string
  readonly parameters: readonly unknown[]
  readonly run: () => Promise<readonly O[]>
  readonly stays?: Stays<O> | undefined
  readonly keepsTo?: RowsById | undefined
}

/** Queries that may be answered by what is kept. */
export class KeepingQueries extends SqliteQueries {
  readonly #results: KeptResults
  readonly #sight: Sight
  readonly #note: ConnectionSource['note']
  readonly #shared: (() => Queries) | undefined

  /** `shared`: what several who ask may read by together; none inside a transaction. */
  constructor(
    source: ConnectionSource,
    { results, sight, shared }: { results: KeptResults; sight: Sight; shared?: () => Queries },
  ) {
    super(source)
    this.#results = results
    this.#sight = sight
    this.#note = source.note
    this.#shared = shared
  }

  /** Whether it is outside of transactions, where rows for several who ask may come by one statement. */
  get isShared(): boolean {
    return this.#shared !== undefined
  }

  /** Where others read these rows too by this statement, who notes nothing: it is noted here. None inside a transaction. */
  shared(sql: string, keepsTo: RowsById): Queries | undefined {
    if (this.#shared === undefined) return undefined
    this.#note?.(sql, keepsTo)
    return this.#shared()
  }

  /**
   * For who keeps by other means what a statement has read: notes it for who asks, and says when that has changed. `stays`: not by rows that are
   * added; `keepsTo`: it reads no other rows of that table.
   */
  sightOf(
    sql: string,
    { stays = false, keepsTo }: { readonly stays?: boolean; readonly keepsTo?: RowsById } = {},
  ): { moment(): number | undefined; unmoved(since: number): boolean } {
    this.#note?.(sql, keepsTo)
    const sight = this.#sight
    const seen = keepingTo(keepsTo, this.#results.readBy(sql, { stays }))
    return { moment: sight.moment, unmoved: (since) => sight.unmoved(seen, since) }
  }

  async kept<O>(query: CompiledQuery<O>, stays?: Stays<O>): Promise<readonly O[]> {
    this.#note?.(query.sql)
    const { sql, parameters } = query
    const run = (): Promise<readonly O[]> => rowsBy(this, query)
    return this.#results.rowsOf({ sql, parameters, run, stays }, this.#sight)
  }

  /** The same for one row of a table, which `run` reads by this statement, alone or with others. */
  async keptBy<O>(sql: string, keepsTo: RowsById, run: () => Promise<readonly O[]>): Promise<readonly O[]> {
    return await this.#results.rowsOf({ sql, parameters: keepsTo.ids, run, keepsTo }, this.#sight)
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
  return q instanceof KeepingQueries ? q.kept(compiled, stays) : await rowsBy(q, compiled)
}
