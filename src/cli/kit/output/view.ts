/** What a cell shows. A time is relative in tables and ISO in machine output; a status is coloured. */
export type Cell =
  | string
  | number
  | boolean
  | null
  | undefined
  | { readonly time: string | null }
  | { readonly status: string }
  | { readonly mib: number | null }

/** A column of a table. `wide`: only in `-o wide`, in CSV and in the table of one thing. */
export interface Column<T> {
  readonly title: string
  readonly value: (row: T) => Cell
  readonly wide?: true
}

/** How rows of one kind are shown. */
export interface View<T> {
  readonly columns: readonly Column<T>[]
  readonly id: (row: T) => string
  readonly name: (row: T) => string
}

/** A view of rows that have `id` and `name`. */
export function view<T extends { readonly id: string; readonly name: string }>(columns: readonly Column<T>[]): View<T> {
  return { columns, id: (row) => row.id, name: (row) => row.name }
}

/** A value of any shape as people read it: lists by commas, what is deeper by `name=value`. */
export function cellOf(value: unknown): Cell {
  if (value === null || value === undefined) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  return Array.isArray(value) ? value.map(plain).join(',') : plain(value)
}

function plain(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value)
  if (Array.isArray(value)) return value.map(plain).join(',')
  return Object.entries(value)
    .map(([name, below]) => `${name}=${plain(below)}`)
    .join(' ')
}

/** A column. */
export function column<T>(title: string, value: (row: T) => Cell): Column<T> {
  return { title, value }
}

/** A column that only wide output has. */
export function wide<T>(title: string, value: (row: T) => Cell): Column<T> {
  return { title, value, wide: true }
}
