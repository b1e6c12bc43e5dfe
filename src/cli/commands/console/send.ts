import { createInterface } from 'node:readline'
import { sendCommand } from '../../../shared/api/console.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { reportOf } from '../../kit/report.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'

/** `panel console send`: one command of the line, or one for each line of stdin. */
export const send: Action = async (run) => {
  const { id, name } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const text = run.args.words('text').join(' ')
  if (run.args.flag('stdin') === (text !== '')) throw usage('give a command, or --stdin')
  if (!run.args.flag('stdin')) {
    const sent = await call(run, sendCommand, { params: { serverId: id }, body: { command: text } })
    if (run.out.machine) await run.out.value(sent)
    else run.notice(`sent to ${name}`)
    return 0
  }
  return sendLines(run, id)
}

async function sendLines(run: Run, serverId: string): Promise<number> {
  const rate = run.args.integer('rate', 1) ?? 5
  const client = await run.client()
  const exits: number[] = []
  let due = run.clock.monotonicMs()
  for await (const command of createInterface({ input: run.terminal.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    if (command.trim() === '') continue
    await run.clock.sleep(Math.max(0, due - run.clock.monotonicMs()), run.signal)
    if (run.signal.aborted) break
    due = Math.max(due, run.clock.monotonicMs()) + 1000 / rate
    const key = run.idempotencyKey(String(exits.length))
    try {
      const sent = await client.call(sendCommand, { params: { serverId }, body: { command } }, { idempotencyKey: key })
      exits.push(0)
      if (run.out.machine) await run.out.entry({ command, ...sent })
    } catch (error) {
      const report = reportOf(error)
      exits.push(report.exit)
      run.terminal.say(`${oneLine(command)}: ${oneLine(report.message)} (${report.code})`)
    }
  }
  const failed = exits.filter((code) => code !== 0)
  run.notice(`${exits.length - failed.length} of ${exits.length} sent`)
  if (failed.length === 0) return 0
  return failed.length < exits.length ? 3 : (failed[0] ?? 1)
}
