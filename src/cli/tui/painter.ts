import type { Frame } from './frame.ts'
import type { Terminal } from './terminal.ts'

/** Draws frames on a terminal; only rows that changed are written. */
export interface Painter {
  paint(frame: Frame): void
  /** Clears the screen, as after a change of its size; the next frame is drawn in full. */
  restart(): void
}

// Terminals that know synchronized output show all rows of a frame at once; the others ignore it.
const BEGIN = '\u001B[?2026h\u001B[?25l'
const END = '\u001B[?2026l'
const SHOW_CURSOR = '\u001B[?25h'
const CLEAR = '\u001B[2J'
const REST_OF_ROW = '\u001B[0m\u001B[K'

/**
 * A painter on a terminal whose alternate screen is on. Every row is written at its place and in one piece with the others
 * of its frame: nothing depends on where the cursor was, and nothing is cleared that is not written again.
 */
export function createPainter(terminal: Pick<Terminal, 'write'>): Painter {
  let shown: Frame = BLANK
  return {
    paint: (frame) => {
      const text = changes(shown, frame)
      shown = frame
      if (text !== '') terminal.write(text)
    },
    restart: () => {
      shown = BLANK
      terminal.write(CLEAR)
    },
  }
}

const BLANK: Frame = { rows: [], cursor: undefined }

/** What turns one picture into another; '' when they look the same. */
function changes(before: Frame, after: Frame): string {
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
