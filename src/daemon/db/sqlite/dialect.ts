import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type LimitNode,
  type OffsetNode,
  type QueryResult,
  SelectQueryNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import type { RowsById } from '../table-parts.ts'
import type { Runner } from './connection.ts'

/** Where a kysely instance gets its connection from, and gives it back to. */
export interface ConnectionSource {
  acquire(): Promise<Runner>
  release(connection: Runner): void
  /** Calls `run`, which runs this statement on a connection that was acquired, when it may run; without it, statements run at once. */
  carryOut?<T>(sql: string, run: () => Promise<T>): Promise<T>
  /** Called with the SQL of each query, and with the rows of a table to which it keeps. */
  note?(sql: string, rows?: RowsById): void
}

/**
 * SQLite looks at the value of a parameter that stands as a limit, and so compiles the statement anew whenever one is bound: a quarter of
 * what a page of a list costs. Into a sum it does not look.
 */
class QueryCompiler extends SqliteQueryCompiler {
  protected override visitLimit(node: LimitNode): void {
    super.visitLimit(node)
    this.append(' + 0')
  }

  protected override visitOffset(node: OffsetNode): void {
    super.visitOffset(node)
    this.append(' + 0')
  }
}

/** Kysely over our own connections. Transactions are begun and ended by `db/write-queue.ts`, never through kysely. */
export function sqliteDialect(source: ConnectionSource): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createQueryCompiler: () => new QueryCompiler(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createDriver: () => driver(source),
  }
}

function driver(source: ConnectionSource): Driver {
  const noTransactions = async (): Promise<void> => {
    throw new Error('transactions go through db.write')
  }
  return {
    init: async () => undefined,
    acquireConnection: async () => new Lease(await source.acquire(), source),
    releaseConnection: async (lease) => {
      if (lease instanceof Lease) source.release(lease.connection)
    },
    beginTransaction: noTransactions,
    commitTransaction: noTransactions,
    rollbackTransaction: noTransactions,
    destroy: async () => undefined,
  }
}

class Lease implements DatabaseConnection {
  readonly connection: Runner
  readonly #source: ConnectionSource

  constructor(connection: Runner, source: ConnectionSource) {
    this.connection = connection
    this.#source = source
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    this.#source.note?.(query.sql)
    const { sql, parameters } = query
    if (givesRows(query)) {
      const rows = await carriedOut(this.#source, sql, () => this.connection.all(sql, parameters))
      return { rows: rows as R[] } // kysely's own contract: the compiled query decides the shape of its rows
    }
    const { changes, lastId } = await carriedOut(this.#source, sql, () => this.connection.run(sql, parameters))
    return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastId) }
  }

  // biome-ignore lint/correctness/useYield: SQLite's rows come at once; lists are read in pages
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('read in pages instead of streaming')
  }
}

/** What `run` comes to, once the statement may run. */
export function carriedOut<T>(source: ConnectionSource, sql: string, run: () => Promise<T>): Promise<T> {
  return source.carryOut === undefined ? run() : source.carryOut(sql, run)
}

/** Whether a query answers rows, also none. */
export function givesRows(query: CompiledQuery): boolean {
  const node = query.query
  if (SelectQueryNode.is(node)) return true
  if ('returning' in node && node.returning !== undefined) return true
  return node.kind === 'RawNode' && /^\s*(select|with|explain|pragma)\b|\breturning\b/i.test(query.sql)
}
