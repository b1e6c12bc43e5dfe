import {
  CamelCasePlugin,
  Kysely,
  type KyselyConfig,
  type PluginTransformResultArgs,
  type QueryResult,
  type UnknownRow,
} from 'kysely'
import type { Schema } from '../schema.ts'
import { type ConnectionSource, sqliteDialect } from './dialect.ts'

/** The query builder over connections of ours: camelCase in the program, snake_case in the database. */
export function queriesOver(source: ConnectionSource): Kysely<Schema> {
  return new Kysely<Schema>(configOver(source))
}

/** What a query builder over them is made of. */
export function configOver(source: ConnectionSource): KyselyConfig {
  return { dialect: sqliteDialect(source), plugins: [new ColumnNames()] }
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
    const [first] = result.rows
    if (first === undefined) return result
    const { columns, empty } = this.#shapeOf(first)
    const rows = result.rows.map((row) => {
      const mapped = { ...empty }
      for (const { column, name } of columns) mapped[name] = row[column]
      return mapped
    })
    return { ...result, rows }
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
