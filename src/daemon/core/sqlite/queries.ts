import {
  CamelCasePlugin,
  Kysely,
  type PluginTransformResultArgs,
  type QueryId,
  type QueryResult,
  type UnknownRow,
} from 'kysely'
import type { Schema } from '../schema.ts'
import { type ConnectionSource, sqliteDialect } from './dialect.ts'

/** The query builder over connections of ours: camelCase in the program, snake_case in the database. */
export function queriesOver(source: ConnectionSource): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: sqliteDialect(source), plugins: [new ColumnNames()] })
}

/** A column of a result, and what it is called in the program. */
interface Column {
  readonly column: string
  readonly name: string
}

/** All rows of a query have the same columns, so their names are made once; values are scalars and stay as they are. */
class ColumnNames extends CamelCasePlugin {
  readonly #columns = new WeakMap<QueryId, readonly Column[]>()

  override async transformResult({ result, queryId }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    const [first] = result.rows
    if (first === undefined) return result
    const columns = this.#columns.get(queryId) ?? this.#columnsOf(first)
    this.#columns.set(queryId, columns)
    const rows = result.rows.map((row) => {
      const mapped: UnknownRow = {}
      for (const { column, name } of columns) mapped[name] = row[column]
      return mapped
    })
    return { ...result, rows }
  }

  #columnsOf(row: UnknownRow): Column[] {
    return Object.keys(row).map((column) => ({ column, name: this.camelCase(column) }))
  }
}
