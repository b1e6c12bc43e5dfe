import * as api from '../../../shared/api/schedules.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { column, type View } from '../../kit/output/view.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { address, schedulesOf } from './actions.ts'

/** One time of a schedule. */
interface Time {
  readonly at: string
  /** On the clocks of the time zone that is shown. */
  readonly local: string
  readonly timezone: string
  /** `null` of a text that is no schedule. */
  readonly schedule: string | null
  readonly scheduleId: string | null
}

const TIMES: View<Time> = {
  id: (row) => row.scheduleId ?? row.at,
  name: (row) => row.schedule ?? row.at,
  columns: [
    column('TIME', (row) => row.local),
    column('TIME ZONE', (row) => row.timezone),
    column('IN', (row) => ({ time: row.at })),
    column('SCHEDULE', (row) => row.schedule),
  ],
}

/** `panel schedules next`: the next times of one schedule, of all that are enabled, or of a cron text. */
export const nextTimes: Action = async (run) => {
  const count = run.args.integer('count', 1) ?? 10
  if (count > 100) throw usage('--count is at most 100')
  const times = await timesOf(run, count)
  await run.out.list(times.sort((a, b) => a.at.localeCompare(b.at)).slice(0, count), TIMES)
}

async function timesOf(run: Run, count: number): Promise<Time[]> {
  const cron = run.args.text('cron')
  const timezone = run.args.text('tz')
  const { id: serverId } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  if (cron !== undefined) {
    if (run.args.word('schedule') !== undefined) throw usage('--cron and a schedule exclude each other')
    return preview(run, { serverId, schedule: cron, timezone, count })
  }
  const named = run.args.word('schedule') === undefined ? undefined : await address(run)
  const times: Time[] = []
  if (named !== undefined) {
    const task = await call(run, api.getTask, { params: named.params })
    if (!task.enabled) run.notice(`the schedule ${task.name} is disabled; enabled, it would run at these times`)
    return ofTask(run, task, count)
  }
  for await (const task of schedulesOf(run, serverId)) if (task.enabled) times.push(...(await ofTask(run, task, count)))
  return times
}

async function ofTask(run: Run, task: api.Task, count: number): Promise<Time[]> {
  const { serverId, schedule, timezone } = task
  const times = await preview(run, { serverId, schedule, timezone, count })
  const shown = run.args.text('tz')
  const named = times.map((time) => ({ ...time, schedule: task.name, scheduleId: task.id }))
  return shown === undefined ? named : named.map((time) => ({ ...time, ...onClocks(time.at, shown) }))
}

async function preview(
  run: Run,
  of: { serverId: string; schedule: string; timezone: string | undefined; count: number },
): Promise<Time[]> {
  const { serverId, schedule, timezone, count } = of
  const query = { schedule, count, ...(timezone === undefined ? {} : { timezone }) }
  const found = await call(run, api.previewTask, { params: { serverId }, query })
  return found.runs.map((time) => ({ ...time, timezone: found.timezone, schedule: null, scheduleId: null }))
}

/** An instant on the clocks of another time zone. */
function onClocks(at: string, timezone: string): { readonly local: string; readonly timezone: string } {
  let format: Intl.DateTimeFormat
  try {
    format = new Intl.DateTimeFormat('sv-SE', {
      timeZone: timezone,
      dateStyle: 'short',
      timeStyle: 'medium',
    })
  } catch {
    throw usage(`--tz must be a time zone such as UTC or Europe/Berlin, not '${timezone}'`)
  }
  return { local: format.format(Date.parse(at)).replace(' ', 'T'), timezone }
}
