import { CamelCasePlugin, Kysely, type PluginTransformResultArgs, type QueryResult, type UnknownRow } from 'kysely'
import type { Schema } from '../schema.ts'
import { type ConnectionSource, sqliteDialect } from './dialect.ts'

/** The query builder over connections of ours: camelCase in the program, snake_case in the database. */
export function queriesOver(source: ConnectionSource): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: sqliteDialect(source), plugins: [new ColumnNames()] })
}

/** All rows of a result have the same columns, so their names are made once; values are scalars and stay as they are. */
class ColumnNames extends CamelCasePlugin {
  override async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    const [first] = result.rows
    if (first === undefined) return result
    const columns = Object.keys(first).map((column) => ({ column, name: this.camelCase(column) }))
    const rows = result.rows.map((row) => {
      const mapped: UnknownRow = {}
      for (const { column, name } of columns) mapped[name] = row[column]
      return mapped
    })
    return { ...result, rows }
  }
}
