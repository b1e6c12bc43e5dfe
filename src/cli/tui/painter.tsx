import { type Instance, render } from 'ink'
import type { Frame } from './frame.ts'
import type { Size } from './layout.ts'
import { Screen } from './screen.tsx'

/** Draws frames on a terminal; only rows that changed are written. */
export interface Painter {
  paint(frame: Frame): void
  /** Clears the screen and draws the next frame in full, at this size. */
  restart(size: Size): void
  stop(): void
}

const CLEAR = '\u001B[2J\u001B[H'
const MAX_FPS = 60
// Ink 6.8 goes back to the first row of its last frame by one row too few when the frame ends with a line end, which every
// frame does that leaves the last row of the terminal free. The writes that redraw rows are those that clear to their ends.
const ROW_CHANGED = '\u001B[K'
const UP = '\u001B[A'

/** A painter on `stdout`, whose alternate screen is on and whose cursor is at home. */
export function createPainter(stdout: NodeJS.WriteStream, stdin: NodeJS.ReadStream, first: Size): Painter {
  let size = first
  let muted = false
  let ink: Instance | undefined
  let last: Frame | undefined
  const write = (text: string, done?: () => void): boolean =>
    stdout.write(text.includes(ROW_CHANGED) ? UP + text : text, done)
  const canvas = new Proxy(stdout, {
    // Ink sees the size that frames are made for, hears of no resize, and is silent while it is taken down.
    get: (target, property) => {
      if (property === 'columns') return size.columns
      if (property === 'rows') return size.rows
      if (property === 'write') return muted ? swallow : write
      if (property === 'on' || property === 'off') return () => target
      const value: unknown = Reflect.get(target, property, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const takeDown = (): void => {
    muted = true
    ink?.unmount()
    ink = undefined
    muted = false
  }
  const draw = (frame: Frame): void => {
    last = frame
    if (ink !== undefined) {
      ink.rerender(<Screen frame={frame} />)
      return
    }
    ink = render(<Screen frame={frame} />, {
      stdout: canvas,
      stdin,
      exitOnCtrlC: false,
      patchConsole: false,
      incrementalRendering: true,
      maxFps: MAX_FPS,
    })
  }
  return {
    paint: (frame) => {
      if (frame !== last) draw(frame)
    },
    restart: (next) => {
      takeDown()
      size = next
      stdout.write(CLEAR)
    },
    stop: takeDown,
  }
}

function swallow(...args: unknown[]): boolean {
  const done = args.at(-1)
  if (typeof done === 'function') done()
  return true
}
