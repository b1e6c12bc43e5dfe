import type { Frame } from './frame.ts'
import type { Size } from './layout.ts'
import { layOut } from './screen.tsx'
import type { Terminal } from './terminal.ts'

/** Draws frames on a terminal; only rows that changed are written. */
export interface Painter {
  paint(frame: Frame): void
  /** Clears the screen, as after a change of its size; the next frame is drawn in full at this size. */
  restart(size: Size): void
}

/** What stands on the terminal. */
interface Picture {
  readonly rows: readonly string[]
  readonly cursor: Frame['cursor']
}

// Terminals that know synchronized output show all rows of a frame at once; the others ignore it.
const BEGIN = '\u001B[?2026h\u001B[?25l'
const END = '\u001B[?2026l'
const SHOW_CURSOR = '\u001B[?25h'
const CLEAR = '\u001B[2J'
const REST_OF_ROW = '\u001B[0m\u001B[K'
const BLANK: Picture = { rows: [], cursor: undefined }

/**
 * A painter on a terminal whose alternate screen is on. Ink lays out the bars around the log when they change; the rows of
 * the log go past it, because it takes all it draws apart into cells, of which a large screen under a flood has too many.
 * Every row is written at its place: nothing depends on where the cursor was, and nothing is cleared but to be written again.
 */
export function createPainter(terminal: Pick<Terminal, 'write'>, first: Size): Painter {
  let size = first
  let shown = BLANK
  let bars: readonly string[] = []
  let barsOf = ''
  return {
    paint: (frame) => {
      const { header, log, footer, cursor } = frame
      const wanted = [...header, ...footer].join('\n')
      if (wanted !== barsOf) {
        bars = layOut(frame, size.columns)
        barsOf = wanted
      }
      const picture = { rows: [...bars.slice(0, header.length), ...log, ...bars.slice(header.length)], cursor }
      const text = changes(shown, picture)
      shown = picture
      if (text !== '') terminal.write(text)
    },
    restart: (next) => {
      size = next
      shown = BLANK
      barsOf = ''
      terminal.write(CLEAR)
    },
  }
}

/** What turns one picture into another; '' when they look the same. */
function changes(before: Picture, after: Picture): string {
  let text = ''
  for (let row = 0; row < Math.max(before.rows.length, after.rows.length); row += 1) {
    const wanted = after.rows[row] ?? ''
    if (wanted !== (before.rows[row] ?? '')) text += `${place(0, row)}${wanted}${REST_OF_ROW}`
  }
  const { cursor } = after
  if (text === '' && before !== BLANK && cursor?.x === before.cursor?.x && cursor?.y === before.cursor?.y) return ''
  return BEGIN + text + (cursor === undefined ? '' : place(cursor.x, cursor.y) + SHOW_CURSOR) + END
}

function place(x: number, y: number): string {
  return `\u001B[${y + 1};${x + 1}H`
}
