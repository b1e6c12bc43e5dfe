import { createInterface } from 'node:readline'
import { sendCommand, streamConsole } from '../../../shared/api/console.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { reportOf } from '../../kit/report.ts'
import type { Run } from '../../kit/run.ts'
import { detachMessage } from '../../tui/detach-message.ts'
import { askedText } from '../servers/outcome.ts'
import { consoleItem, gapNotice, type Line, printLine } from './line.ts'
import { PAGE, readLastLines } from './pages.ts'

/** How long answers are still shown after the end of stdin. */
const LINGER_MS = 500

/** What ends line mode from outside. Ctrl-C leaves the console as a detach key does; the game never gets it. */
const ENDINGS = { SIGINT: 0, SIGTERM: 143, SIGHUP: 129 } as const

/** A console in plain lines: prints what comes, sends each line of stdin, ends a moment after stdin does. */
export async function lineMode(
  run: Run,
  server: { readonly id: string; readonly name: string; readonly takesNoInput: boolean },
): Promise<number> {
  if (server.takesNoInput) run.notice(`${server.name} takes no input from its console: lines are shown only`)
  const over = new AbortController()
  let exit = 0
  const listeners = Object.entries(ENDINGS).map(([signal, code]) => {
    const listener = (): void => {
      exit = code
      over.abort()
    }
    process.on(signal, listener)
    return { signal, listener }
  })
  let failure: unknown
  const type = async (): Promise<void> => {
    try {
      const code = await typeLines(run, server.id, over.signal)
      if (over.signal.aborted) return
      exit = code
      await run.clock.sleep(LINGER_MS, over.signal)
    } catch (error) {
      failure = error
    }
    over.abort()
  }
  let last: string | undefined
  try {
    last = await printLines(run, server, {
      signal: over.signal,
      // What is typed before that may be answered before anybody looks.
      onConnected: () => void (run.args.flag('read-only') || server.takesNoInput ? undefined : type()),
    })
  } finally {
    over.abort()
    for (const { signal, listener } of listeners) process.removeListener(signal, listener)
  }
  if (failure !== undefined) throw failure
  run.notice(detachMessage(server.name, last))
  return exit
}

/** Prints the console until `signal`; the id of the last line. `onConnected` is called when the daemon knows which lines are new. */
async function printLines(
  run: Run,
  server: { readonly id: string; readonly name: string },
  { signal, onConnected }: { readonly signal: AbortSignal; readonly onConnected: () => void },
): Promise<string | undefined> {
  const open = await run.streams()
  const tail = run.args.integer('tail') ?? 500
  let last = run.args.text('after-cursor')
  if (last === undefined && tail > PAGE) {
    const before = await readLastLines(run, { serverId: server.id, count: tail, before: undefined })
    for (const line of before) await printStamped(run, line)
    last = before.at(-1)?.id
  }
  const lastEventId = last
  const input = { params: { serverId: server.id }, query: { lines: lastEventId === undefined ? tail : 0 } }
  let connected = false
  for await (const item of open(streamConsole, input, { signal, retriesBeforeOpen: 3, lastEventId })) {
    if (item.kind === 'retrying')
      run.notice(`cut off (${oneLine(item.reason)}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (item.kind !== 'frame') continue
    const read = consoleItem(item)
    if (read?.kind === 'connected' && !connected) {
      connected = true
      onConnected()
    }
    if (read?.kind === 'ended') run.notice(`the panel says: ${oneLine(read.reason)}`)
    if (read?.kind === 'eula') run.notice(askedText(server.name))
    const gap = read?.kind === 'resume' ? gapNotice(read.resume) : undefined
    if (gap !== undefined) run.terminal.say(gap)
    if (read?.kind !== 'line') continue
    last = read.line.id
    await printStamped(run, read.line)
  }
  return last
}

async function printStamped(run: Run, line: Line): Promise<void> {
  if (run.out.machine) return printLine(run, line)
  await run.out.text(`[${line.timestamp.slice(11, 19)}] `)
  await printLine(run, line)
}

/** Sends each line of stdin; ends with it. The exit code is that of the last refusal. */
async function typeLines(run: Run, serverId: string, signal: AbortSignal): Promise<number> {
  const client = await run.client()
  const input = createInterface({ input: run.terminal.stdin, crlfDelay: Number.POSITIVE_INFINITY, signal })
  let exit = 0
  let count = 0
  for await (const command of input) {
    if (command.trim() === '') continue
    try {
      const options = { idempotencyKey: run.idempotencyKey(String(count++)) }
      await client.call(sendCommand, { params: { serverId }, body: { command } }, options)
    } catch (error) {
      const report = reportOf(error)
      exit = report.exit
      run.terminal.say(`${oneLine(command)}: ${oneLine(report.message)} (${report.code})`)
    }
  }
  return exit
}
