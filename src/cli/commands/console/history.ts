import { getLogs } from '../../../shared/api/console.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { instantOf } from '../../kit/instant.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { lineFilter, printLine } from './line.ts'
import { readLastLines, readLogPages } from './pages.ts'

/** `panel console history`; exit 15 when `--grep` finds nothing. */
export const history: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const limit = run.args.integer('limit', 1) ?? 1000
  const since = instantOf(run, 'since')
  const before = (await placeBefore(run, serverId)) ?? instantOf(run, 'until')
  const matches = lineFilter(run)
  let found = 0
  const lines =
    since === undefined
      ? await readLastLines(run, { serverId, count: limit, before })
      : readLogPages(run, { serverId, after: since, until: instantOf(run, 'until'), notices: false })
  for await (const line of lines) {
    if (found >= limit) break
    if (!matches(line)) continue
    await printLine(run, line)
    found += 1
  }
  return found === 0 && run.args.text('grep') !== undefined ? 15 : 0
}

async function placeBefore(run: Run, serverId: string): Promise<string | undefined> {
  const text = run.args.text('before-seq')
  if (text === undefined || /^[0-9a-z]{1,40}-\d{1,15}$/.test(text)) return text
  if (!/^\d{1,15}$/.test(text)) throw usage(`--before-seq is a number or <epoch>-<number>, not '${text}'`)
  const { epoch } = await (await run.client()).call(getLogs, { params: { serverId }, query: { lines: 1 } })
  return epoch === null ? undefined : `${epoch}-${text}`
}
