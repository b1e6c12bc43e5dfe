import { write as writeTo } from 'node:fs'
import { type EventLoopUtilization, performance } from 'node:perf_hooks'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { Size } from '../layout.ts'
import { createPace } from './pace.ts'

/** What happens at the terminal. */
export interface TerminalListener {
  readonly resize: () => void
  /** It was closed; may be reported more than once. */
  readonly gone: () => void
  /** Everything written so far has been taken. */
  readonly drained: () => void
}

/** What the screen needs of the terminal. Keys are read by Ink. */
export interface Terminal {
  size(): Size
  /** Whether what was written has not been taken yet. Nothing more is drawn until then: it could only be late. */
  busy(): boolean
  /** How many bytes the terminal is likely to take in a moment; endless until it has turned out to be slow. */
  room(): number
  /** Writes without waiting: the terminal may be at the end of a slow line, and keys are answered meanwhile. */
  write(text: string): void
  /** Whether the wheel is reported. Otherwise the mouse belongs to the terminal, which selects text with it. */
  mouse(on: boolean): void
  /** The alternate screen, bracketed paste, the wheel, no automatic wrapping. */
  enter(listener: TerminalListener): void
  /** Enters again: after a stop, what stopped this process has left the terminal as a shell wants it. */
  retake(): void
  /** Puts everything back as it was; harmless when repeated, and at the exit of the process. */
  leave(): void
}

const MOUSE_ON = '\u001B[?1000h\u001B[?1006h'
const MOUSE_OFF = '\u001B[?1006l\u001B[?1000l'
// Without the mouse, many terminals turn the wheel into arrow keys, which would walk through the history.
const MODES = '\u001B[?1049h\u001B[?2004h\u001B[?7l'
const ENTER = `${MODES}\u001B[?1007s\u001B[?1007l${MOUSE_ON}\u001B[2J\u001B[H`
const LEAVE = `\u001B[?2026l\u001B[0m${MOUSE_OFF}\u001B[?1007r\u001B[?7h\u001B[?2004l\u001B[?25h\u001B[?1049l`
const RETRY_MS = 5

/** The terminal behind these streams. */
export function createTerminal(stdin: NodeJS.ReadStream, stdout: NodeJS.WriteStream, clock: Clock): Terminal {
  const pace = createPace(clock.monotonicMs())
  let entered: TerminalListener | undefined
  let waiting = ''
  let writing = false
  let hasMouse = true
  const fd = 'fd' in stdout && typeof stdout.fd === 'number' ? stdout.fd : 1
  const next = (): void => {
    if (waiting === '' || entered === undefined) return
    const bytes = Buffer.from(waiting)
    waiting = ''
    writing = true
    send(bytes, 0, performance.eventLoopUtilization())
  }
  /** Node writes to a terminal in the main thread, and stands still with it; here a thread of its pool waits. */
  const send = (bytes: Buffer, from: number, start: EventLoopUtilization): void => {
    writeTo(fd, bytes, from, (error, written) => {
      if (error !== null && error.code !== 'EAGAIN') {
        writing = false
        entered?.gone()
      } else if (error !== null) {
        void clock.sleep(RETRY_MS).then(() => send(bytes, from, start))
      } else if (from + written < bytes.length) {
        send(bytes, from + written, start)
      } else {
        pace.wrote(bytes.length, performance.eventLoopUtilization(start).idle, clock.monotonicMs())
        writing = false
        next()
        if (!writing) entered?.drained()
      }
    })
  }
  return {
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    busy: () => writing,
    room: () => pace.room(clock.monotonicMs()),
    write: (text) => {
      waiting += text
      if (!writing) next()
    },
    mouse: (on) => {
      hasMouse = on
      waiting += on ? MOUSE_ON : MOUSE_OFF
      if (!writing) next()
    },
    enter: (listener) => {
      entered = listener
      // A terminal that was closed answers EIO to reads and writes, also after this has left it.
      stdout.on('error', listener.gone)
      stdin.on('error', listener.gone)
      stdin.on('end', listener.gone)
      stdout.on('resize', listener.resize)
      // Ink does it again with the first frame; what is typed until then must not show.
      stdin.setRawMode(true)
      stdout.write(ENTER)
    },
    retake: () => {
      if (entered === undefined) return
      try {
        // Node does nothing about a mode that it takes for the present one.
        stdin.setRawMode(false)
        stdin.setRawMode(true)
        stdout.write(`${MODES}\u001B[?1007l${hasMouse ? MOUSE_ON : MOUSE_OFF}`)
      } catch {
        entered.gone()
      }
    },
    leave: () => {
      if (entered === undefined) return
      const listener = entered
      entered = undefined
      stdout.off('resize', listener.resize)
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
