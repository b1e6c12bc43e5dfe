import type { Size } from './layout.ts'

/** What happens at the terminal. `gone`: it was closed; may be told more than once. */
export interface TerminalListener {
  readonly input: (chunk: string) => void
  readonly resize: () => void
  readonly gone: () => void
}

/** What the screen needs of the terminal. */
export interface Terminal {
  size(): Size
  /** Whether what was written has not gone out yet. */
  congested(): boolean
  write(text: string): void
  /** Raw mode, the alternate screen, bracketed paste, no automatic wrapping. */
  enter(listener: TerminalListener): void
  /** Puts everything back as it was; harmless when repeated, and at the exit of the process. */
  leave(): void
}

const ENTER = '\u001B[?1049h\u001B[?2004h\u001B[?7l\u001B[2J\u001B[H'
const LEAVE = '\u001B[?2026l\u001B[0m\u001B[?7h\u001B[?2004l\u001B[?25h\u001B[?1049l'

/** The terminal behind these streams. */
export function createTerminal(stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream): Terminal {
  let entered: TerminalListener | undefined
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    congested: () => stdout.writableNeedDrain,
    write: (text) => {
      stdout.write(text)
    },
    enter: (listener) => {
      entered = listener
      // A terminal that was closed answers EIO to reads and writes, also after this has left it.
      stdout.on('error', listener.gone)
      stdin.on('error', listener.gone)
      stdin.setEncoding('utf8')
      stdin.setRawMode(true)
      stdin.on('data', listener.input)
      stdin.on('end', listener.gone)
      stdin.resume()
      stdout.on('resize', listener.resize)
      stdout.write(ENTER)
    },
    leave: () => {
      if (entered === undefined) return
      const listener = entered
      entered = undefined
      stdout.off('resize', listener.resize)
      stdin.off('data', listener.input)
      stdin.off('end', listener.gone)
      try {
        stdout.write(LEAVE)
        stdin.setRawMode(false)
      } catch {
        // The terminal is gone (hang-up); there is nothing left to restore.
      }
      stdin.pause()
      stdin.unref()
    },
  }
}
