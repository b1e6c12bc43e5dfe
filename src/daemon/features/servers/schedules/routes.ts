import * as api from '../../../../shared/api/schedules.ts'
import { type Clock, isoTime, now } from '../../../../shared/kernel/time.ts'
import { serverPermissions } from '../../../access/permit.ts'
import { checkCron } from '../../../core/cron.ts'
import { localTime } from '../../../core/cron-times.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'
import { toRun, toRunDetail, toTask } from './view.ts'

/** The routes of the schedules of servers. */
export function scheduleRoutes(deps: operations.ScheduleDeps & { readonly clock: Clock }): Route[] {
  const { db, clock } = deps
  const at = { q: db.read }
  return [
    route(api.listTasks, async ({ params: { serverId }, query }) => {
      await operations.serverOf(at, serverId)
      const page = await rows.listShown(db.read, serverId, query)
      return { items: page.rows.map(toTask), total: page.total }
    }),
    route(api.previewTask, async ({ params: { serverId }, query: { schedule, after, count, ...query } }) => {
      const server = await operations.serverOf(at, serverId)
      const timezone = query.timezone ?? operations.timezoneOf(deps, server)
      const fromMs = after === undefined ? clock.nowMs() : Date.parse(after)
      const times = checkCron({ cron: schedule, timeZone: timezone }, fromMs, { field: 'query.schedule' })
      const runs: { at: ReturnType<typeof isoTime>; local: string }[] = []
      let next = times.nextAfter(fromMs)
      for (; next !== null && runs.length < count; next = times.nextAfter(next)) {
        runs.push({ at: isoTime(next), local: localTime(next, timezone) })
      }
      return { schedule, timezone, runs }
    }),
    route(api.getTask, async ({ params }) => {
      await operations.serverOf(at, params.serverId)
      return toTask(await operations.scheduleOf(at, params))
    }),
    operate(operations.createTask, deps),
    operate(operations.updateTask, deps),
    operate(operations.deleteTask, deps),
    operate(operations.executeTask, deps),
    operate(operations.abortTask, deps),
    route(api.listTaskRuns, async ({ params, query }) => {
      await operations.serverOf(at, params.serverId)
      const { id } = await operations.scheduleOf(at, params)
      const page = await rows.listRuns(db.read, id, query)
      return { items: page.rows.map((row) => toRun(params.serverId, row)), total: page.total }
    }),
    route(api.getTaskRun, async ({ params }, context) => {
      const { serverId, taskRunId } = params
      await operations.serverOf(at, serverId)
      const { id } = await operations.scheduleOf(at, params)
      const row = await rows.findRun(db.read, taskRunId)
      if (row?.scheduleId !== id)
        return context.fail('TASK_RUN_NOT_FOUND', 'This schedule has no such run, or not any more')
      const mayRead = { q: db.read, now: now(clock) }
      const held = await serverPermissions(mayRead, callerOf(context), serverId, ['console.read'])
      return toRunDetail(serverId, row, held.length > 0)
    }),
  ]
}
