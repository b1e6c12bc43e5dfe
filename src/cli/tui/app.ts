import type { Client } from '../../shared/client.ts'
import { ERRORS, isErrorCode } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { oneLine } from '../kit/output/escape.ts'
import type { BatchOpener } from '../net/stream.ts'
import { mountScreen } from './components/screen.tsx'
import { detachMessage } from './detach-message.ts'
import { readKeyNames } from './keys/keys.ts'
import { type ConsoleState, initialState, type Send } from './model/model.ts'
import { readHistory } from './session/history.ts'
import { type ConsoleServer, ConsoleSession, type SessionOptions } from './session/session.ts'
import { createTerminal, type Terminal } from './terminal/terminal.ts'
import type { Theme } from './terminal/theme.ts'

/** What the console screen needs. `stdin` and `stdout` must be terminals. */
export interface ConsoleOptions {
  readonly client: Client
  readonly openStream: BatchOpener
  readonly server: ConsoleServer
  readonly contextName: string
  /** How many lines before the first live one. */
  readonly tail: number
  /** Resume behind this line, `<epoch>-<seq>`, instead. */
  readonly afterCursor?: string | undefined
  readonly readOnly: boolean
  /** The game takes no typed lines. */
  readonly takesNoInput: boolean
  /** A key or several in a row, as in `ctrl-]` or `ctrl-p,ctrl-q`. */
  readonly detachKeys: string
  readonly theme: Theme
  /** Whether lines have the colours that the game sent. */
  readonly colour: boolean
  /** Where an export goes unless another path is typed. */
  readonly exportFolder: string
  /** Where typed commands are kept, one file per context and server. */
  readonly historyPath: string
  readonly clock: Clock
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
}

/**
 * Shows the console screen until the person detaches or a signal ends it; the exit code of the command (0, 128 + signal,
 * or that of the refusal that stands on the screen at the end). Throws the daemon's PanelError when it refuses the first
 * connection. The terminal is as it was in every case.
 */
export async function runConsole(options: ConsoleOptions): Promise<number> {
  const { stdin, stdout, stderr, server, clock, theme } = options
  const terminal = createTerminal(stdin, stdout, clock)
  const state = await firstState(options, stdout.columns)
  const mount: SessionOptions['mount'] = (to) => mountScreen({ stdin, stdout, theme, clock, ...to })
  const session = new ConsoleSession({ ...options, afterCursor: options.afterCursor, terminal, state, mount })
  const guard = guardProcess(session, terminal)
  stderr.on('error', ignoreLoss)
  try {
    terminal.enter({
      resize: () => session.resized(),
      gone: guard.hangUp,
      drained: () => session.drained(),
    })
    await session.run()
  } finally {
    guard.release()
    session.unmount()
    terminal.leave()
  }
  for (const line of notSent(await session.settle(), session.unsent)) stderr.write(`${line}\n`)
  stderr.write(`${detachMessage(server.name, session.cursor ?? options.afterCursor)}\n`)
  return guard.signalled() ?? refusalExit(session.state)
}

const MOST_NAMED = 20

/** What a person who has left must know of what they typed: the commands that failed, and those that were not sent. */
function notSent(failed: readonly Send[], unsent: readonly string[]): string[] {
  const named = unsent.slice(0, MOST_NAMED).map((text) => `not sent: ${oneLine(text)}`)
  const more = unsent.length - named.length
  return [
    ...failed.map(({ text, problem }) => `not sent (${problem ?? 'no answer'}): ${oneLine(text)}`),
    ...named,
    ...(more > 0 ? [`not sent: ${more} more lines`] : []),
  ]
}

async function firstState(options: ConsoleOptions, columns: number): Promise<ConsoleState> {
  return initialState({
    serverName: options.server.name,
    readOnly: options.readOnly,
    takesNoInput: options.takesNoInput,
    detachKeys: readKeyNames(options.detachKeys),
    history: await readHistory(options.historyPath).catch(() => []), // typing works without a history that cannot be read
    time: columns >= 100 ? 'local' : 'off',
    colour: options.colour,
  })
}

interface Guard {
  /** The exit code of the signal that ended the screen. */
  signalled(): number | undefined
  /** Ends the screen as SIGHUP does. */
  hangUp(): void
  release(): void
}

/** Ends the screen on signals, and gives the terminal back before anything else when something fails unforeseen. */
function guardProcess(session: ConsoleSession, terminal: Terminal): Guard {
  let code: number | undefined
  const endBy = (exit: number) => (): void => {
    code ??= exit
    session.stop()
  }
  const onTerminate = endBy(143)
  const onHangUp = endBy(129)
  const onInterrupt = (): void => session.press({ kind: 'key', name: 'c', ctrl: true, alt: false })
  const onStop = (): void => {} // Ctrl-Z would leave the shell with a raw terminal
  const onContinue = (): void => {
    terminal.retake()
    process.emit('SIGWINCH') // sent to nobody who was stopped in the background: Node looks at the size again
    session.resized()
  }
  const onFailure = (error: unknown): void => {
    terminal.leave()
    session.fail(error)
  }
  process.on('SIGTERM', onTerminate)
  process.on('SIGHUP', onHangUp)
  process.on('SIGINT', onInterrupt)
  process.on('SIGTSTP', onStop)
  process.on('SIGCONT', onContinue)
  process.on('uncaughtException', onFailure)
  process.on('exit', terminal.leave)
  return {
    signalled: () => code,
    hangUp: onHangUp,
    release: () => {
      process.off('SIGTERM', onTerminate)
      process.off('SIGHUP', onHangUp)
      process.off('SIGINT', onInterrupt)
      process.off('SIGTSTP', onStop)
      process.off('SIGCONT', onContinue)
      process.off('uncaughtException', onFailure)
      process.off('exit', terminal.leave)
    },
  }
}

function refusalExit(state: ConsoleState): number {
  const { link } = state.facts
  return link.kind === 'refused' && isErrorCode(link.code) ? ERRORS[link.code].exit : 0
}

function ignoreLoss(): void {
  // The terminal is gone; nobody reads the last line.
}
