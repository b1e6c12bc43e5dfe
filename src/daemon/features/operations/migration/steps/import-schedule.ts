import { z } from 'zod'
import { SCHEDULE_LIMITS, TaskStep } from '../../../../../shared/kernel/schedule.ts'
import { recordFact } from '../../../../access/operation.ts'
import { cronProblem } from '../../../../core/cron.ts'
import { addSchedule, updateTask } from '../../../servers/schedules/operations.ts'
import { countOfServer, updateSchedule } from '../../../servers/schedules/rows.ts'
import { findServerRow } from '../../../servers/servers/rows.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { StepRefusal, stepAction } from './step.ts'

const Task = z.looseObject({
  action: z.string(),
  payload: z.string(),
  offsetSeconds: z.number(),
  continueOnFailure: z.boolean(),
})
const Schedule = z.looseObject({
  id: z.string(),
  name: z.string(),
  cron: z.object({
    minute: z.string(),
    hour: z.string(),
    dayOfMonth: z.string(),
    month: z.string(),
    dayOfWeek: z.string(),
  }),
  isActive: z.boolean(),
  onlyWhenOnline: z.boolean(),
  tasks: z.array(Task),
})

/**
 * Brings a schedule with all its steps, in the name of the server's owner. It begins when the server may be used: until then it rests as
 * those of suspended servers do. What is no schedule here is left out, with the reason.
 */
export const importSchedule = stepAction({
  input: z.object({ serverSourceId: z.string(), source: Schedule, op: z.enum(['create', 'update']) }),
  run: async ({ deps, principal, sourceFp, targetId }, { serverSourceId, source, op }) => {
    const read = readSchedule(source)
    if ('reason' in read) {
      return () => Promise.resolve({ kind: 'skipped', reason: read.reason, notes: { warnings: [read.text] } })
    }
    return async (tx) => {
      const mapped = await findMapped(tx.q, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
      const server = mapped === undefined ? undefined : await findServerRow(tx.q, mapped.targetId)
      if (server === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'Its server has been deleted here')
      const { isActive, onlyWhenOnline } = source
      const { name, cron: schedule, steps } = read
      const done = (id: string) =>
        ({ kind: 'done', target: { type: 'schedule', id, created: true, contentHash: contentHash(source) } }) as const
      if (op === 'update' && targetId !== null) {
        const body = { name, schedule, steps, onlyWhenOnline }
        const params = { serverId: server.id, taskId: targetId }
        await call(tx, updateTask, { deps, principal, params, body })
        // Who runs it stays its server's owner.
        await updateSchedule(tx, targetId, { ownerId: server.ownerId, apiKeyId: null })
        return done(targetId)
      }
      // Some may have been made here since the plan.
      if ((await countOfServer(tx.q, server.id)) >= SCHEDULE_LIMITS.perServer) {
        const text = `schedule ${name}: its server has ${SCHEDULE_LIMITS.perServer} schedules here, as many as it may`
        return { kind: 'skipped', reason: 'too_many_schedules', notes: { warnings: [text] } }
      }
      const rests = server.suspendedAt !== null
      const by = { ownerId: server.ownerId, apiKeyId: null, createdBy: null }
      const about = { name, schedule, steps: [...steps], onlyWhenOnline, missed: 'skip' as const }
      const made = await addSchedule(tx, deps, server, { ...by, ...about, enabled: isActive && !rests })
      const { id } = made.row
      if (isActive && rests) await updateSchedule(tx, id, { disabledBySuspension: 1 })
      const { audit, events = [] } = made.done
      const entry = audit && { ...audit, action: 'task.create', resource: 'task' }
      await recordFact(tx, { deps, principal }, { audit: entry, events })
      return done(id)
    }
  },
})

type Read =
  | { readonly name: string; readonly cron: string; readonly steps: readonly TaskStep[] }
  | { readonly reason: string; readonly text: string }

function readSchedule({ name: given, cron, tasks }: z.infer<typeof Schedule>): Read {
  const name = given.trim().slice(0, 100) || 'schedule'
  const { minute, hour, dayOfMonth, month, dayOfWeek } = cron
  const text = [minute, hour, dayOfMonth, month, dayOfWeek].map((field) => field.trim() || '*').join(' ')
  const problem = cronProblem(text)
  if (problem !== undefined)
    return { reason: 'cron_unreadable', text: `schedule ${name}: its time ${text}: ${problem}` }
  if (tasks.length === 0) return { reason: 'no_tasks', text: `schedule ${name}: it has nothing to do` }
  if (tasks.length > SCHEDULE_LIMITS.steps) {
    return { reason: 'too_many_tasks', text: `schedule ${name}: it has more than ${SCHEDULE_LIMITS.steps} tasks` }
  }
  const steps: TaskStep[] = []
  for (const task of tasks) {
    const step = TaskStep.safeParse(stepOf(task))
    if (!step.success) {
      return { reason: 'task_unreadable', text: `schedule ${name}: its task ${task.action} cannot be carried out here` }
    }
    steps.push(step.data)
  }
  return { name, cron: text, steps }
}

function stepOf({ action, payload, offsetSeconds, continueOnFailure }: z.infer<typeof Task>): unknown {
  const common = { timeOffset: offsetSeconds, continueOnFailure }
  if (action === 'command') return { action, payload: { command: payload }, ...common }
  if (action === 'power') return { action: payload, ...common }
  if (action !== 'backup') return { action }
  const ignored = payload.split(/\r?\n/).filter((line) => line.trim() !== '')
  return { action, payload: ignored.length === 0 ? {} : { ignored }, ...common }
}
