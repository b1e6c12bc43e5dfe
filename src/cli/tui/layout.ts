/** Columns and rows of a terminal. */
export interface Size {
  readonly columns: number
  readonly rows: number
}

/** How the screen is divided. `notice`: too small for anything but a sentence. */
export interface Layout {
  readonly kind: 'wide' | 'medium' | 'narrow' | 'notice'
  /** Columns drawn: one less than the terminal has, because terminals differ in what clearing after the last one does. */
  readonly columns: number
  /** Rows drawn: one less than the terminal has, because some scroll when their last cell is written. */
  readonly rows: number
  readonly logHeight: number
  readonly logWidth: number
}

/** Whether there is no room for a screen that could be used. */
export function isTooSmall(size: Size): boolean {
  return size.columns < 40 || size.rows < 8
}

/** A box from 80 columns and 15 rows on, with the fields at its right from 100; bare rows below that. */
export function layoutOf(size: Size): Layout {
  const columns = Math.max(1, size.columns - 1)
  const rows = Math.max(1, size.rows - 1)
  if (isTooSmall(size)) return { kind: 'notice', columns, rows: 1, logHeight: 0, logWidth: columns }
  if (size.columns < 80 || size.rows < 15)
    return { kind: 'narrow', columns, rows, logHeight: rows - 2, logWidth: columns }
  return { kind: size.columns < 100 ? 'medium' : 'wide', columns, rows, logHeight: rows - 5, logWidth: columns - 4 }
}
