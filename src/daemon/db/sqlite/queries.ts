import {
  CamelCasePlugin,
  type CompiledQuery,
  Kysely,
  type PluginTransformResultArgs,
  type QueryResult,
  type UnknownRow,
} from 'kysely'
import type { Schema } from '../schema.ts'
import type { RowsById } from '../table-parts.ts'
import { type ConnectionSource, carriedOut, givesRows, sqliteDialect } from './dialect.ts'

/** The query builder over connections of ours: camelCase in the program, snake_case in the database. */
export function queriesOver(source: ConnectionSource): SqliteQueries {
  return new SqliteQueries(source)
}

/** A query builder that also runs statements which are made already, past all that a builder does for each query. */
export class SqliteQueries extends Kysely<Schema> {
  readonly #source: ConnectionSource

  constructor(source: ConnectionSource) {
    super({ dialect: sqliteDialect(source), plugins: [NAMES] })
    this.#source = source
  }

  /** The rows of a statement, as the builder gives them; none of one that changes rows and returns nothing. `rows`: those of a table to which it keeps. */
  async rowsOf(
    { sql, givesRows }: MadeStatement,
    parameters: readonly unknown[],
    rows?: RowsById,
  ): Promise<UnknownRow[]> {
    const source = this.#source
    const connection = await source.acquire()
    try {
      source.note?.(sql, rows)
      if (givesRows) return NAMES.named(await carriedOut(source, sql, () => connection.all(sql, parameters)))
      await carriedOut(source, sql, () => connection.change(sql, parameters, undefined))
      return []
    } finally {
      source.release(connection)
    }
  }

  /** Runs a statement that gives no rows; answers whether it has changed so many. */
  async change(sql: string, parameters: readonly unknown[], expected: number): Promise<boolean> {
    const source = this.#source
    const connection = await source.acquire()
    try {
      source.note?.(sql)
      return await carriedOut(source, sql, () => connection.change(sql, parameters, expected))
    } finally {
      source.release(connection)
    }
  }
}

/** The rows of a query that is compiled already: past the builder, which takes as long for it as SQLite does for a row. */
export async function rowsBy<O>(q: Kysely<Schema>, query: CompiledQuery<O>): Promise<O[]> {
  if (!(q instanceof SqliteQueries)) return (await q.executeQuery(query)).rows
  return (await q.rowsOf({ sql: query.sql, givesRows: givesRows(query) }, query.parameters)) as O[] // as the builder gives them
}

/** The SQL of a statement. */
export interface MadeStatement {
  readonly sql: string
  readonly givesRows: boolean
}

/** The name that a column has in the program. */
export function columnName(column: string): string {
  return NAMES.nameOf(column)
}

interface Shape {
  readonly columns: readonly { readonly column: string; readonly name: string }[]
  /** A row of nothing. */
  readonly empty: UnknownRow
}

/** Far more than the program has kinds of rows. */
const MAX_SHAPES = 1000

/**
 * All rows of a result have the same columns, so their names are made once; values are scalars and stay as they are. A row that got its
 * columns one by one would be a hash table to V8; copies of one that was parsed are objects of one shape, quicker to make and to read.
 */
class ColumnNames extends CamelCasePlugin {
  readonly #shapes = new Map<string, Shape>()

  nameOf(column: string): string {
    return this.camelCase(column)
  }

  override async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    return result.rows.length === 0 ? result : { ...result, rows: this.named(result.rows) }
  }

  named(rows: UnknownRow[]): UnknownRow[] {
    const [first] = rows
    if (first === undefined) return rows
    const { columns, empty } = this.#shapeOf(first)
    return rows.map((row) => {
      const mapped = { ...empty }
      for (const { column, name } of columns) mapped[name] = row[column]
      return mapped
    })
  }

  #shapeOf(row: UnknownRow): Shape {
    const names = Object.keys(row)
    const key = names.join()
    const known = this.#shapes.get(key)
    if (known !== undefined) return known
    const columns = names.map((column) => ({ column, name: this.camelCase(column) }))
    const empty: UnknownRow = JSON.parse(`{${columns.map(({ name }) => `${JSON.stringify(name)}:null`).join()}}`)
    if (this.#shapes.size >= MAX_SHAPES) this.#shapes.clear()
    this.#shapes.set(key, { columns, empty })
    return { columns, empty }
  }
}

const NAMES = new ColumnNames()
