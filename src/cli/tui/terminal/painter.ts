/** One picture: painted rows from the top, and where the cursor stands. */
export interface Picture {
  readonly above: readonly string[]
  readonly log: readonly string[]
  readonly below: readonly string[]
  readonly cursor: { readonly x: number; readonly y: number } | undefined
}

/** Turns pictures into what a terminal must be sent; only rows that changed. */
export interface Painter {
  /** What is to stand on the terminal. */
  show(picture: Picture): void
  /** The rest of what is to be sent, about `most` bytes of it: first what stands around the log. '' when all is shown. */
  take(most: number): string
  /** Whether there is more to be sent. */
  readonly behind: boolean
  /** Clears the screen, as after a change of its size; the next picture is drawn in full. */
  restart(): string
}

// Terminals that know synchronized output show all rows at once; the others ignore it.
const BEGIN = '\u001B[?2026h\u001B[?25l'
const END = '\u001B[?2026l'
const SHOW_CURSOR = '\u001B[?25h'
const CLEAR = '\u001B[2J'
const REST_OF_ROW = '\u001B[0m\u001B[K'
const BLANK: Picture = { above: [], log: [], below: [], cursor: undefined }

/**
 * A painter for a terminal whose alternate screen is on. Every row is written at its place: nothing depends on where the
 * cursor was, and nothing is cleared but to be written again.
 */
export function createPainter(): Painter {
  let wanted = BLANK
  let shown: string[] = []
  let cursor: Picture['cursor']
  let drawn = false
  const rowsOf = (picture: Picture): string[] => [...picture.above, ...picture.log, ...picture.below]
  const isMoved = (): boolean => !drawn || cursor?.x !== wanted.cursor?.x || cursor?.y !== wanted.cursor?.y
  return {
    show: (picture) => {
      wanted = picture
    },
    take: (most) => {
      const rows = rowsOf(wanted)
      const last = Math.max(rows.length, shown.length)
      const logEnd = wanted.above.length + wanted.log.length
      let text = ''
      const write = (from: number, to: number): void => {
        for (let row = from; row < to && text.length < most; row += 1) {
          const content = rows[row] ?? ''
          if (content === (shown[row] ?? '')) continue
          text += `${place(0, row)}${content}${REST_OF_ROW}`
          shown[row] = content
        }
      }
      if (Number.isFinite(most)) {
        write(logEnd, last)
        write(0, wanted.above.length)
      }
      write(0, last)
      if (text === '' && !isMoved()) return ''
      drawn = true
      cursor = wanted.cursor
      return BEGIN + text + (cursor === undefined ? '' : place(cursor.x, cursor.y) + SHOW_CURSOR) + END
    },
    get behind() {
      const rows = rowsOf(wanted)
      const last = Math.max(rows.length, shown.length)
      return isMoved() || Array.from({ length: last }).some((_, row) => (shown[row] ?? '') !== (rows[row] ?? ''))
    },
    restart: () => {
      wanted = BLANK
      shown = []
      drawn = false
      return CLEAR
    },
  }
}

function place(x: number, y: number): string {
  return `\u001B[${y + 1};${x + 1}H`
}
