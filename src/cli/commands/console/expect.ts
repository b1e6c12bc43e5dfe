import { sendCommand, streamConsole } from '../../../shared/api/console.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { oneLine, plainText } from '../../kit/output/escape.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { compile, consoleItem, type LinePattern, printLine } from './line.ts'

/** `panel console expect`: listens, then sends, then waits for as many matching lines as are wanted. */
export const expect: Action = async (run) => {
  const { id: serverId, name } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const pattern = compile(run.args.required('regex'), { ignoreCase: false })
  const count = run.args.integer('count', 1) ?? 1
  const timeoutMs = run.args.duration('timeout') ?? 30_000
  const over = new AbortController()
  const signal = AbortSignal.any([run.signal, over.signal])
  let timedOut = false
  void run.clock.sleep(timeoutMs, signal).then(() => {
    timedOut = !signal.aborted
    over.abort()
  })
  try {
    if (await matched(run, { serverId, pattern, count, signal })) return 0
  } finally {
    over.abort()
  }
  if (timedOut)
    throw new CliFailure('TIMEOUT', `${name}: no line matched /${pattern.source}/ within ${timeoutMs / 1000} s`)
  throw new CliFailure('NO_MATCH', `${name}: the console ended and no line matched /${pattern.source}/`)
}

interface Wanted {
  readonly serverId: string
  readonly pattern: LinePattern
  readonly count: number
  readonly signal: AbortSignal
}

async function matched(run: Run, { serverId, pattern, count, signal }: Wanted): Promise<boolean> {
  const open = await run.streams()
  let sent = false
  let found = 0
  for await (const item of open(streamConsole, { params: { serverId }, query: { lines: 0 } }, { signal, retries: 8 })) {
    if (item.kind !== 'frame') continue
    const read = consoleItem(item)
    if (read?.kind === 'connected' && !sent) {
      sent = true
      await sendFirst(run, serverId)
    }
    if (read?.kind === 'ended') {
      run.notice(`the panel says: ${oneLine(read.reason)}`)
      return false
    }
    // What was typed is no answer, though it may look like one.
    if (read?.kind !== 'line' || read.line.stream === 'stdin' || !pattern.test(plainText(read.line.line))) continue
    await printLine(run, read.line)
    found += 1
    if (found >= count) return true
  }
  return false
}

async function sendFirst(run: Run, serverId: string): Promise<void> {
  const command = run.args.text('send')
  if (command === undefined) return
  const options = { idempotencyKey: run.idempotencyKey() }
  await (await run.client()).call(sendCommand, { params: { serverId }, body: { command } }, options)
}
