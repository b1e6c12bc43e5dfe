import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { sendCommand, streamConsole } from '../../shared/api/console.ts'
import type { Action } from '../command.ts'
import { oneLine } from '../output/escape.ts'
import { reportOf } from '../report.ts'
import { subjectOf } from '../resource/actions.ts'
import type { Run } from '../run.ts'
import { readServer } from '../servers/watch.ts'
import { consoleItem, gapNotice, type Line, printLine } from './line.ts'

/** `panel console attach`: the screen on a terminal, plain lines elsewhere. */
export const attach: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const server = await readServer(run, id)
  const { stdin, stdout, stderr } = run.terminal
  const screen =
    run.args.choice('tui') !== false && stdin.isTTY === true && stdout.isTTY === true && !run.env.dumbTerminal
  if (!screen) return lineMode(run, { id: server.id, name: server.name })
  const { runConsole } = await import('../tui/app.tsx')
  const contextName = (await run.target()).contextName ?? 'none'
  return runConsole({
    client: await run.client(),
    openStream: await run.streams(),
    server: { id: server.id, name: server.name, nodeName: server.node.name },
    contextName,
    tail: run.args.integer('tail') ?? 500,
    afterCursor: run.args.text('after-cursor'),
    readOnly: run.args.flag('read-only'),
    detachKeys: run.args.text('detach-keys') ?? 'ctrl-]',
    clock: run.clock,
    stdin,
    stdout,
    stderr,
    historyPath: join(run.env.stateDir, 'history', `${contextName}-${server.id}`.replace(/[^\w.@-]/g, '_')),
  })
}

/** How long answers are still shown after the end of stdin. */
const LINGER_MS = 500

async function lineMode(run: Run, server: { readonly id: string; readonly name: string }): Promise<number> {
  const over = new AbortController()
  const leave = (): void => over.abort()
  // Ctrl-C leaves the console; the game never gets it.
  process.on('SIGINT', leave)
  process.on('SIGTERM', leave)
  process.on('SIGHUP', leave)
  let last: Line | undefined
  let exit = 0
  let typing = false
  try {
    const open = await run.streams()
    const cursor = run.args.text('after-cursor')
    const input = { params: { serverId: server.id }, query: { lines: run.args.integer('tail') ?? 500 } }
    const wishes = {
      signal: over.signal,
      retriesBeforeOpen: 3,
      ...(cursor === undefined ? {} : { lastEventId: cursor }),
    }
    for await (const item of open(streamConsole, input, wishes)) {
      if (item.kind === 'open' && !typing) {
        typing = true
        void typeLines(run, server.id, over.signal).then(async (code) => {
          exit = code
          await run.clock.sleep(LINGER_MS, over.signal)
          leave()
        })
      }
      if (item.kind === 'retrying')
        run.notice(`cut off (${oneLine(item.reason)}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
      if (item.kind !== 'frame') continue
      const read = consoleItem(item)
      if (read?.kind === 'ended') run.notice(`the panel says: ${oneLine(read.reason)}`)
      const gap = read?.kind === 'resume' ? gapNotice(read.resume) : undefined
      if (gap !== undefined) run.terminal.say(gap)
      if (read?.kind !== 'line') continue
      last = read.line
      await printStamped(run, read.line)
    }
  } finally {
    over.abort()
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.removeListener(name, leave)
  }
  const resume =
    last === undefined ? '' : ` at ${last.id} (resume: panel console attach ${server.name} --after-cursor ${last.id})`
  run.notice(`detached from ${server.name}${resume}`)
  return exit
}

async function printStamped(run: Run, line: Line): Promise<void> {
  if (run.out.machine) return printLine(run, line)
  await run.out.text(`[${line.timestamp.slice(11, 19)}] `)
  await printLine(run, line)
}

/** Sends each line of stdin; ends with it. The exit code is that of the last refusal. */
async function typeLines(run: Run, serverId: string, signal: AbortSignal): Promise<number> {
  if (run.args.flag('read-only')) return new Promise(() => {})
  const client = await run.client()
  let exit = 0
  let count = 0
  for await (const command of createInterface({
    input: run.terminal.stdin,
    crlfDelay: Number.POSITIVE_INFINITY,
    signal,
  })) {
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
