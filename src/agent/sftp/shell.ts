import { terminalText } from '../../shared/kernel/terminal-text.ts'
import type { ConsoleLine } from '../../shared/protocol/console.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { SshChannel } from './channel.ts'
import { LineInput } from './line-input.ts'
import { type PanelClient, Refusal } from './panel-client.ts'
import type { SftpSession } from './session.ts'

const RECENT_LINES = 200
const RECENT_BYTES = 64 * 1024
const AT_ONCE = { lines: 500, bytes: 128 * 1024 }
/** Typed lines that wait for their turn. */
const MOST_WAITING = 20

/** What a console over SSH works with. */
export interface ShellParts {
  readonly session: SftpSession
  readonly panel: PanelClient
  readonly log: AgentLog
  /** The client has a terminal, which shows nothing that is typed by itself. */
  readonly terminal: boolean
  readonly heard: () => void
  /** Resolves when what was sent has gone out, or nothing goes out any more. */
  readonly sent: () => Promise<void>
}

/**
 * The console of a server over a channel: its last lines, then every new one, and what is typed goes to the panel, which holds it to
 * rights and limits and keeps a record as of any command. Ctrl-C and Ctrl-D leave. Resolves when the channel is over.
 */
export async function serveShell(channel: SshChannel, parts: ShellParts): Promise<void> {
  const { session, panel, log, terminal, heard, sent } = parts
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, session.over])
  const lineEnd = terminal ? '\r\n' : '\n'
  let sending = Promise.resolve()
  let waiting = 0
  const print = (text: string): Promise<void> => write(channel, input.around(text.replaceAll('\n', lineEnd))).then(sent)
  const typed = (line: string): void => {
    if (line.trim() === '') return
    if (!session.may('consoleWrite')) return void print('You may not type into this console (console.write)\n')
    if (waiting >= MOST_WAITING) return void print('Too many lines at once; wait for the earlier ones\n')
    waiting++
    sending = sending.then(async () => {
      try {
        await panel.command(session.id, line)
        session.counts.commands++
      } catch (error) {
        const text = error instanceof Refusal ? error.message : 'The panel cannot be reached; try again later'
        await print(`${terminalText(text)}\n`)
      } finally {
        waiting--
      }
    })
  }
  const input = new LineInput({ echoes: terminal, typed, left: () => over.abort() })
  channel.on('data', (bytes: Buffer) => {
    heard()
    const echo = input.take(bytes)
    if (echo !== '') void write(channel, echo)
  })
  channel.on('end', () => {
    if (terminal) over.abort()
    // What was piped in is typed before the end.
    else void sending.then(() => over.abort())
  })
  channel.on('close', () => over.abort())
  channel.on('error', () => over.abort())
  await follow(session, { signal, print }).catch((error: unknown) => {
    log.warn({ serverId: session.server.id, err: errorText(error) }, 'console over SSH failed')
  })
  await write(channel, input.around(session.over.aborted ? `${session.reason}${lineEnd}` : '', true))
  channel.exit(0)
  channel.end()
  channel.close()
}

/** Prints what a console has and gets, until the signal aborts. */
async function follow(
  session: SftpSession,
  { signal, print }: { readonly signal: AbortSignal; readonly print: (text: string) => Promise<void> },
): Promise<void> {
  const { console, spec } = session.server
  if (!session.may('consoleRead')) return session.end('You have no right to the console of this server (console.read)')
  const way = session.may('consoleWrite') ? 'Type a command and Enter; leave with Ctrl-C' : 'Leave with Ctrl-C'
  await print(`Console of ${terminalText(spec.name)}. ${way}\n`)
  const bounds = await console.bounds()
  let epoch = bounds.epoch
  const recent = await console.before(bounds.last + 1, { lines: RECENT_LINES, bytes: RECENT_BYTES })
  if (recent.length > 0) await print(textOf(recent))
  let after = recent.at(-1)?.[0] ?? bounds.last
  while (!signal.aborted) {
    const lines = await console.after(after, AT_ONCE)
    const last = lines.at(-1)?.[0]
    if (last !== undefined) {
      if (!session.may('consoleRead')) return session.end('Your right to this console has ended')
      await print(textOf(lines))
      after = last
      continue
    }
    await console.waitAfter(after, epoch, signal)
    const now = await console.bounds()
    // A log that was made anew counts from its beginning.
    if (now.epoch !== epoch && now.last < after) after = now.first - 1
    epoch = now.epoch
  }
}

/** Lines as a terminal may get them: of what a game prints only colours act. */
function textOf(lines: readonly ConsoleLine[]): string {
  return lines
    .map(([, , stream, text]) => {
      const shown = terminalText(text.replace(/[\r\n]+/g, ' '), { colours: true })
      return `${stream === 'stdin' ? '> ' : ''}${shown}\u001b[0m\n`
    })
    .join('')
}

/** Resolves when the channel takes more, or is over. */
function write(channel: SshChannel, text: string): Promise<void> {
  if (text === '' || !channel.writable || channel.write(text)) return Promise.resolve()
  return new Promise((resolve) => {
    const done = (): void => {
      for (const event of ['drain', 'close', 'error']) channel.off(event, done)
      resolve()
    }
    for (const event of ['drain', 'close', 'error']) channel.on(event, done)
  })
}
