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

/** A column. */
export function column<T>(title: string, value: (row: T) => Cell): Column<T> {
  return { title, value }
}

/** A column that only wide output has. */
export function wide<T>(title: string, value: (row: T) => Cell): Column<T> {
  return { title, value, wide: true }
}
