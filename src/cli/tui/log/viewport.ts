import type { LogView } from './log-view.ts'

/** Where a view begins: a line by its place, and which of its wrapped rows comes first. */
export interface Anchor {
  readonly at: number
  readonly row: number
}

/** A view of the log: `rowsOf` gives the rows that a line takes at the present width (at least one). */
export interface Pane {
  readonly view: LogView
  readonly height: number
  readonly rowsOf: (at: number) => readonly string[]
}

/** One row of the pane and the line that it shows. */
export interface PaneRow {
  readonly at: number
  readonly text: string
}

/** The newest screenful: rows end at the bottom. */
export function tailRows(pane: Pane): PaneRow[] {
  const top = tailAnchor(pane)
  return top === undefined ? [] : rowsFrom(pane, top)
}

/** Where the newest screenful begins; `undefined` when there is no line. */
export function tailAnchor(pane: Pane): Anchor | undefined {
  const { view, height } = pane
  let left = height
  for (let index = view.length - 1; index >= 0; index -= 1) {
    const at = view.at(index)
    if (at === undefined) break
    const rows = pane.rowsOf(at).length
    if (rows >= left) return { at, row: rows - left }
    left -= rows
  }
  const first = view.at(0)
  return first === undefined ? undefined : { at: first, row: 0 }
}

/** The rows from an anchor on, at most a screenful. When the anchor's line is gone, from the next one that is there. */
export function rowsFrom(pane: Pane, anchor: Anchor): PaneRow[] {
  const shown: PaneRow[] = []
  let skip = anchor.row
  for (let index = pane.view.rank(anchor.at); shown.length < pane.height; index += 1) {
    const at = pane.view.at(index)
    if (at === undefined) break
    const rows = pane.rowsOf(at)
    for (const text of rows.slice(at === anchor.at ? Math.min(skip, rows.length - 1) : 0)) {
      if (shown.length < pane.height) shown.push({ at, text })
    }
    skip = 0
  }
  return shown
}

/** What a scroll came to: the new beginning of the view, and whether it touched the top or the bottom of what is there. */
export interface Scrolled {
  readonly anchor: Anchor
  readonly edge: 'top' | 'bottom' | undefined
}

/** Moves an anchor by so many rows (negative is up), no further than the first line and the newest screenful. */
export function scroll(pane: Pane, anchor: Anchor, rows: number): Scrolled {
  const { view } = pane
  let index = view.rank(anchor.at)
  let row = view.at(index) === anchor.at ? anchor.row : 0
  for (let left = rows; left < 0; ) {
    if (row >= -left) {
      row += left
      break
    }
    left += row
    if (index === 0) return { anchor: { at: view.at(0) ?? 0, row: 0 }, edge: 'top' }
    index -= 1
    row = pane.rowsOf(view.at(index) ?? 0).length
  }
  for (let left = rows; left > 0; ) {
    const at = view.at(index)
    if (at === undefined) break
    const rest = pane.rowsOf(at).length - row
    if (rest > left) {
      row += left
      break
    }
    left -= rest
    row = 0
    index += 1
  }
  return rows > 0
    ? notBelow(pane, { at: view.at(index) ?? Number.MAX_SAFE_INTEGER, row })
    : { anchor: { at: view.at(index) ?? 0, row }, edge: undefined }
}

/** The anchor that shows a line in the middle of the pane. */
export function centred(pane: Pane, at: number): Anchor {
  const up = scroll(pane, { at, row: 0 }, -Math.floor(pane.height / 2)).anchor
  return notBelow(pane, up).anchor
}

/** An anchor is never further down than that of the newest screenful. */
function notBelow(pane: Pane, anchor: Anchor): Scrolled {
  const tail = tailAnchor(pane)
  if (tail === undefined) return { anchor: { at: 0, row: 0 }, edge: 'bottom' }
  const beyond = anchor.at > tail.at || (anchor.at === tail.at && anchor.row >= tail.row)
  return beyond ? { anchor: tail, edge: 'bottom' } : { anchor, edge: undefined }
}
