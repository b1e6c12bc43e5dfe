import type { ChangeOf, ReadOf } from './sqlite/named-tables.ts'
import { idsGiven } from './sqlite/narrow-update.ts'

/** What something was made from of a table: all of it, or parts, each with a name by which its changes are known. */
export interface Seen {
  readonly table: string
  readonly parts: readonly string[] | 'all'
  /** The same for single rows, and for the columns that were read of them: nothing of them has changed unless one of both has. */
  readonly rows: readonly string[]
  readonly columns: readonly string[] | 'all'
}

/** What else than columns and rows of a table changes: rows go, or nothing is known; rows are added; rows change, nobody knows which. */
const [ANYTHING, ADDED, SOME] = ['!', '+', '~'] as const

/** A table, whatever changes in it. */
export function wholeTable(table: string): Seen {
  return { table, parts: 'all', rows: [], columns: 'all' }
}

/** What a query reads. `stays`: its result is the same with more rows. */
export function seenBy({ table, columns }: ReadOf, { stays = false } = {}): Seen {
  if (columns === 'all') return wholeTable(table)
  const names = columns.map((column) => `${table}.${column}`)
  return { table, parts: [table + ANYTHING, ...(stays ? [] : [table + ADDED]), ...names], rows: [], columns: names }
}

/** Rows of a table that a query reads by their ids, and no others of it. */
export interface RowsById {
  readonly table: string
  readonly ids: readonly string[]
}

/** What a query sees that reads these columns of these rows alone: also of those that are not there, which may be added. */
export function seenRows({ table, ids }: RowsById, columns: Seen['columns'] = 'all'): Seen {
  const rows = [partsOfRows(table).some, ...ids.map((id) => rowOf(table, id))]
  return { table, parts: partsOfRows(table).parts, rows, columns }
}

/** One for each table of which anybody has asked for single rows: it is kept with thousands of answers. */
const partsByTable = new Map<string, { readonly parts: readonly string[]; readonly some: string }>()

function partsOfRows(table: string) {
  const known = partsByTable.get(table) ?? { parts: [table + ANYTHING, table + ADDED], some: table + SOME }
  partsByTable.set(table, known)
  return known
}

/** What a query sees that keeps to certain rows of one of its tables. */
export function keepingTo(rows: RowsById | undefined, seen: readonly Seen[]): readonly Seen[] {
  return rows === undefined ? seen : seen.map((one) => (one.table === rows.table ? seenRows(rows, one.columns) : one))
}

/** What a statement with these parameters changes; of single rows in `rows`. */
export function changedParts(change: ChangeOf, parameters: readonly unknown[]): { parts: string[]; rows: string[] } {
  const { table } = change
  if (change.how !== 'updates')
    return { parts: [table, table + (change.how === 'inserts' ? ADDED : ANYTHING)], rows: [] }
  // The rows of other tables, such as commands, which are many, matter to nobody; for who asks from now on it was any of them.
  const isAsked = partsByTable.has(table)
  const ids = change.rows === undefined || !isAsked ? undefined : idsGiven(change.rows, parameters)
  const parts = [table, ...change.columns.map((column) => `${table}.${column}`)]
  if (ids === undefined) return { parts, rows: [table + SOME] }
  return { parts, rows: ids.map((id) => rowOf(table, id)) }
}

function rowOf(table: string, id: string): string {
  return `${table} ${id}`
}
