import { type CompiledQuery, ExpressionWrapper, type SelectionNode, type SelectQueryBuilder, sql } from 'kysely'
import { columnName } from './sqlite/queries.ts'

/** The JSON of a row. */
export interface JsonRow<O> {
  readonly json: string
  /** Never there: whose JSON it is. */
  readonly of?: O
}

/**
 * The same query with each row as one JSON text, for {@link rowsOf}: the driver makes a call per column and row of a result, which for a
 * wide one costs several times what writing and parsing JSON does. Columns must be named one by one and hold no blobs.
 */
export function asJson<DB, TB extends keyof DB, O>(
  query: SelectQueryBuilder<DB, TB, O>,
): { compile(): CompiledQuery<JsonRow<O>> } {
  const { selections = [] } = query.toOperationNode()
  const fields = selections.flatMap(({ selection }) => [
    sql.lit(columnName(nameOf(selection))),
    new ExpressionWrapper(selection.kind === 'AliasNode' ? selection.node : selection),
  ])
  return query.clearSelect().select(sql<string>`json_object(${sql.join(fields)})`.as('json'))
}

/** The rows that {@link asJson} has asked for. */
export function rowsOf<O>(rows: readonly JsonRow<O>[]): O[] {
  return rows.map(({ json }) => JSON.parse(json) as O) // of the columns that O is made of
}

function nameOf(selection: SelectionNode['selection']): string {
  if (selection.kind === 'AliasNode' && selection.alias.kind === 'IdentifierNode')
    return String(Reflect.get(selection.alias, 'name'))
  if (selection.kind === 'ReferenceNode' && selection.column.kind === 'ColumnNode') return selection.column.column.name
  if (selection.kind === 'ColumnNode') return selection.column.name
  throw new Error('a query for JSON names each of its columns')
}
