/** Columns and rows of a terminal. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** How much of the screen there is room for. `notice`: too small for anything but a sentence. */
export interface Layout {
  readonly kind: 'wide' | 'medium' | 'narrow' | 'notice'
  /** Columns drawn: one less than the terminal has, because terminals differ in what clearing after the last one does. */
  readonly columns: number
  /** Rows drawn: one less than the terminal has, because some scroll when their last cell is written. */
  readonly rows: number
}

/** Whether there is no room for a screen that could be used. */
export function isTooSmall(size: Size): boolean {
  return size.columns < 40 || size.rows < 8
}

/** Everything from 100 columns on, the most important fields from 80 columns and 15 rows, two bare rows below that. */
export function layoutOf(size: Size): Layout {
  const columns = Math.max(1, size.columns - 1)
  const rows = Math.max(1, size.rows - 1)
  if (isTooSmall(size)) return { kind: 'notice', columns, rows }
  if (size.columns < 80 || size.rows < 15) return { kind: 'narrow', columns, rows }
  return { kind: size.columns < 100 ? 'medium' : 'wide', columns, rows }
}

/** The most columns of a dialog: longer rows are tiring to read. */
export const WIDEST_DIALOG = 76

/** Columns for text inside a dialog on a screen of so many. */
export function dialogRoom(columns: number): number {
  return Math.max(1, Math.min(columns, WIDEST_DIALOG) - 4)
}
