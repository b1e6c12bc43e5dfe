import { type CompiledQuery, ExpressionWrapper, type SelectionNode, type SelectQueryBuilder, sql } from 'kysely'
import { columnName } from './sqlite/queries.ts'

/** A query whose rows are one JSON text each, and the names of what is in them. */
export interface JsonQuery {
  readonly names: readonly string[]
  compile(): CompiledQuery<{ readonly json: string }>
}

/** Columns of real numbers, none of which is null: SQLite writes 15 of their digits as JSON, which is another number. */
const REALS: ReadonlySet<string> = new Set(['cpuCores', 'maxCpuCores'])

/**
 * The same query with each row as one JSON text, for {@link rowsOf}: the driver makes several calls for each column of each row, which for
 * fifty wide rows costs three times what writing and parsing JSON does. Columns must be named one by one and hold no blobs.
 */
export function asJson<DB, TB extends keyof DB, O>(query: SelectQueryBuilder<DB, TB, O>): JsonQuery {
  const { selections = [] } = query.toOperationNode()
  const values = selections.map(({ selection }) => {
    const value = new ExpressionWrapper(selection.kind === 'AliasNode' ? selection.node : selection)
    return REALS.has(columnName(nameOf(selection))) ? sql`json(format('%!.17g', ${value}))` : value
  })
  const json = query.clearSelect().select(sql<string>`json_array(${sql.join(values)})`.as('json'))
  return { names: selections.map(({ selection }) => columnName(nameOf(selection))), compile: () => json.compile() }
}

/** The rows of such a query, with the type of those that it was made from. */
export function rowsOf<O>(names: readonly string[], texts: readonly { readonly json: string }[]): O[] {
  const empty: Record<string, unknown> = JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join()}}`)
  return texts.map(({ json }) => {
    const values: readonly unknown[] = JSON.parse(json)
    const row = { ...empty } // objects of one shape are quicker to make and to read
    for (let i = 0; i < names.length; i++) row[names[i] as string] = values[i] // there are as many
    return row as O // of the columns that O is made of
  })
}

function nameOf(selection: SelectionNode['selection']): string {
  if (selection.kind === 'AliasNode' && selection.alias.kind === 'IdentifierNode')
    return String(Reflect.get(selection.alias, 'name'))
  if (selection.kind === 'ReferenceNode' && selection.column.kind === 'ColumnNode') return selection.column.column.name
  if (selection.kind === 'ColumnNode') return selection.column.name
  throw new Error('a query for JSON names each of its columns')
}
