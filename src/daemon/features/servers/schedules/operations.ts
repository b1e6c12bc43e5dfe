import * as api from '../../../../shared/api/schedules.ts'
import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { permissionsOf, SCHEDULE_LIMITS, type TaskStep } from '../../../../shared/kernel/schedule.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { type Done, type OperationDeps, operationsOver, type Work } from '../../../access/operation.ts'
import { serverPermissions } from '../../../access/permit.ts'
import type { NewEvent } from '../../../core/bus.ts'
import { checkCron } from '../../../core/cron.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { typedCommand } from '../console/typed-command.ts'
import { offline, refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import { lookForDue } from './due-job.ts'
import * as rows from './rows.ts'
import { abortRun, beginRun, type RunDeps, type RunFor, runUnderWay } from './runs.ts'
import { toTask } from './view.ts'
import { stepsGiven } from './work.ts'

/** What the operations of schedules need. */
export type ScheduleDeps = OperationDeps &
  RunDeps & { readonly settings: Pick<Settings, 'get'>; readonly isOnline: (nodeId: string) => boolean }

const operation = operationsOver<ScheduleDeps>()

export const createTask = operation(api.createTask, async (work, { params: { serverId }, body }) => {
  const { tx, deps, userId } = work
  const server = await serverOf(tx, serverId)
  const steps = stepsGiven(body)
  if (steps === undefined) throw fieldError('body.steps', 'must say what is done')
  await permitSteps(work, serverId, steps)
  const { name, description, schedule, timezone, enabled, onlyWhenOnline, missed } = body
  const fields = { name, description, schedule, timezone, enabled, onlyWhenOnline, missed, steps }
  const { row, done } = await addSchedule(tx, deps, server, {
    ...fields,
    ...{ ownerId: userId, apiKeyId: apiKeyOf(work), createdBy: userId },
  })
  return { answer: toTask(row), ...done }
})

/** A schedule that is about to be made, by the names of the API. What its owner may do is looked at when it runs. */
export interface NewSchedule {
  readonly ownerId: string | null
  /** The key by which it is made, which bounds what its runs may do. */
  readonly apiKeyId: string | null
  readonly createdBy: string | null
  readonly name: string
  readonly description?: string | null | undefined
  readonly schedule: string
  /** Without it that of the server, else that of the panel. */
  readonly timezone?: string | undefined
  readonly steps: readonly TaskStep[]
  readonly enabled: boolean
  readonly onlyWhenOnline: boolean
  readonly missed: rows.ScheduleRow['missed']
}

/** Makes a schedule, and answers what is recorded of it. Throws SERVER_INVALID_STATE, TASK_LIMIT_REACHED and VALIDATION_ERROR. */
export async function addSchedule(
  tx: Tx,
  deps: ScheduleDeps,
  server: ServerRow,
  wanted: NewSchedule,
): Promise<{ readonly row: rows.ShownRow; readonly done: Done }> {
  const { id: serverId } = server
  if (server.deletingAt !== null) throw new PanelError('SERVER_INVALID_STATE', 'This server is being deleted')
  const limit = SCHEDULE_LIMITS.perServer
  if ((await rows.countOfServer(tx.q, serverId)) >= limit) {
    const message = `A server may have ${limit} schedules; delete one first`
    throw new PanelError('TASK_LIMIT_REACHED', message, { meta: { limit } })
  }
  const { ownerId, apiKeyId, createdBy, name, schedule: cron, missed, enabled } = wanted
  const timezone = wanted.timezone ?? timezoneOf(deps, server)
  const nextRunAt = nextGiven(tx, { cron, timezone })
  const id = newId('sch', deps.clock)
  await tx.q
    .insertInto('schedule')
    .values({
      ...{ id, serverId, ownerId, apiKeyId, name, description: wanted.description || null, cron, timezone, missed },
      ...{ steps: JSON.stringify(wanted.steps), onlyWhenOnline: wanted.onlyWhenOnline ? 1 : 0 },
      ...{ enabled: enabled ? 1 : 0, nextRunAt: enabled ? nextRunAt : null, timedAt: tx.now },
      ...{ lastRunAt: null, lastStatus: null, lastError: null, createdAt: tx.now, updatedAt: tx.now },
    })
    .execute()
  await lookForDue(tx, deps.jobs)
  const row = await scheduleOf(tx, { serverId, taskId: id })
  const created: NewEvent = { type: 'task_created', serverId, data: { taskId: id, taskName: name, createdBy } }
  const audit = { resourceId: id, details: detailsOf(row) }
  return { row, done: { audit, events: [created, changed(serverId, createdBy)] } }
}

export const updateTask = operation(api.updateTask, async (work, { params, body }) => {
  const { tx, deps, userId } = work
  const { serverId, taskId: id } = params
  await serverOf(tx, serverId)
  const before = await scheduleOf(tx, params)
  const had = rows.readableSteps(before)
  const steps = stepsGiven(body, had)
  if (steps === undefined && had.length === 0)
    throw fieldError('body.steps', 'must be given anew: the stored ones are damaged')
  // Also who changes only the time decides when those steps are carried out.
  await permitSteps(work, serverId, steps ?? had)
  const cron = body.schedule ?? before.cron
  const timezone = body.timezone ?? before.timezone
  const enabled = body.enabled ?? before.enabled === 1
  const isRetimed = cron !== before.cron || timezone !== before.timezone || enabled !== (before.enabled === 1)
  const next =
    enabled && (isRetimed || before.nextRunAt === null) ? nextGiven(tx, { cron, timezone }) : before.nextRunAt
  const takesOver = steps !== undefined || before.ownerId === null
  await rows.updateSchedule(tx, id, {
    ...{ cron, timezone, enabled: enabled ? 1 : 0, disabledBySuspension: 0 },
    updatedAt: tx.now,
    ...(takesOver ? { ownerId: userId, apiKeyId: apiKeyOf(work) } : {}),
    ...(steps === undefined ? {} : { steps: JSON.stringify(steps) }),
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.description === undefined ? {} : { description: body.description || null }),
    ...(body.missed === undefined ? {} : { missed: body.missed }),
    ...(body.onlyWhenOnline === undefined ? {} : { onlyWhenOnline: body.onlyWhenOnline ? 1 : 0 }),
  })
  const nextRunAt = enabled ? next : null
  if (nextRunAt !== before.nextRunAt) await rows.timeSchedule(tx, id, nextRunAt)
  await lookForDue(tx, deps.jobs)
  const row = await scheduleOf(tx, params)
  const details = changes(fieldsOf(before), fieldsOf(row))
  if (details === undefined) return { answer: toTask(row) }
  return {
    answer: toTask(row),
    audit: { resourceId: id, details: { serverId, name: row.name, ...details, ...maskedChange(details['steps']) } },
    events: [
      { type: 'task_updated', serverId, data: { taskId: id, taskName: row.name, updatedBy: userId } },
      changed(serverId, userId),
    ],
  }
})

export const deleteTask = operation(api.deleteTask, async ({ tx, deps, userId }, { params }) => {
  const { serverId, taskId: id } = params
  await serverOf(tx, serverId)
  const row = await scheduleOf(tx, params)
  await abortRun(tx, deps, id, 'The schedule was deleted')
  await tx.q.deleteFrom('schedule').where('id', '=', id).execute()
  return {
    answer: null,
    audit: { resourceId: id, details: detailsOf(row) },
    events: [
      { type: 'task_deleted', serverId, data: { taskId: id, taskName: row.name, deletedBy: userId } },
      changed(serverId, userId),
    ],
  }
})

export const executeTask = operation(api.executeTask, async (work, { params }) => {
  const { tx, deps, userId, fail } = work
  const { serverId, taskId: id } = params
  const server = await serverOf(tx, serverId)
  const row = await scheduleOf(tx, params)
  await permitSteps(work, serverId, rows.stepsOf(row))
  const open = await runUnderWay(tx, deps, id)
  if (open !== undefined) fail('TASK_ALREADY_RUNNING', 'A run of this schedule is under way', { runId: open.id })
  const status = statusOf(server)
  if (status === 'deleting' || status === 'archived') refuseStatus(status)
  if (!deps.isOnline(server.nodeId)) throw offline(server)
  if (row.onlyWhenOnline === 1 && status !== 'running' && status !== 'starting') refuseStatus(status)
  if (userId === null) throw new PanelError('PERMISSION_DENIED', 'Only an account can run a schedule')
  const onBehalfOf: RunFor = work.caller ?? { kind: 'session', userId, credentialId: '' }
  const start = { schedule: row, cause: 'manual', dueAt: tx.now, nodeId: server.nodeId } as const
  const { runId, jobId } = await beginRun(tx, deps, { ...start, onBehalfOf, startedBy: userId })
  const details = { serverId, name: row.name, ownerId: row.ownerId, runId, jobId }
  return { answer: { status: 'running' as const, runId, jobId }, audit: { resourceId: id, details } }
})

export const abortTask = operation(api.abortTask, async ({ tx, deps, userId, fail }, { params }) => {
  const { serverId, taskId: id } = params
  await serverOf(tx, serverId)
  const row = await scheduleOf(tx, params)
  const by = userId === null ? undefined : tx.q.selectFrom('user').select('username').where('id', '=', userId)
  const name = (await by?.executeTakeFirst())?.username ?? 'the panel'
  const runId = await abortRun(tx, deps, id, `Aborted by ${name}`)
  if (runId === undefined) return fail('TASK_NOT_RUNNING', 'No run of this schedule is under way')
  const details = { serverId, name: row.name, ownerId: row.ownerId, runId }
  return { answer: { status: 'aborting' as const, runId }, audit: { resourceId: id, details } }
})

/** The server, as far as its schedules can be used. */
export async function serverOf(tx: Pick<Tx, 'q'>, serverId: string): Promise<ServerRow> {
  const server = await findServerRow(tx.q, serverId)
  if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(server)
  return server
}

export async function scheduleOf(
  { q }: Pick<Tx, 'q'>,
  { serverId, taskId }: { readonly serverId: string; readonly taskId: string },
): Promise<rows.ShownRow> {
  const row = await rows.findShown(q, serverId, taskId)
  if (row === undefined) throw new PanelError('TASK_NOT_FOUND', 'This server has no such schedule')
  return row
}

/** The time zone of a schedule that names none. */
export function timezoneOf({ settings }: Pick<ScheduleDeps, 'settings'>, server: ServerRow): string {
  return server.timeZone ?? settings.get('panel.timezone')
}

/** The next time of a cron text as a request gives it; throws VALIDATION_ERROR with what is wrong with it. */
function nextGiven(tx: Tx, { cron, timezone }: { readonly cron: string; readonly timezone: string }): IsoTime | null {
  const nowMs = Date.parse(tx.now)
  const next = checkCron({ cron, timeZone: timezone }, nowMs, { field: 'body.schedule' }).nextAfter(nowMs)
  return next === null ? null : isoTime(next)
}

/** Whoever decides what a schedule does, or when, must be allowed to do it by themselves. */
async function permitSteps(
  work: Work<Endpoint, ScheduleDeps>,
  serverId: string,
  steps: readonly TaskStep[],
): Promise<void> {
  const wanted = permissionsOf(steps)
  const held = await serverPermissions({ q: work.tx.q, now: work.tx.now }, work.holder, serverId, wanted)
  const missing = wanted.filter((permission) => !held.includes(permission))
  if (missing.length === 0) return
  throw new PanelError('PERMISSION_DENIED', `The steps of this schedule need the permission ${missing.join(' and ')}`, {
    meta: { missing },
  })
}

/** What the key may not do by which a schedule is made, its runs may not do either. */
function apiKeyOf({ caller }: Work<Endpoint, ScheduleDeps>): string | null {
  return caller?.kind === 'apiKey' ? caller.credentialId : null
}

function refuseStatus(status: string): never {
  throw new PanelError('SERVER_INVALID_STATE', `A server that is ${status} runs no schedule like this`, {
    meta: { currentStatus: status, allowed: ['running', 'starting'] },
  })
}

/** What the audit log compares of a schedule, by the names of the API. */
function fieldsOf(row: rows.ScheduleRow): Readonly<Record<string, unknown>> {
  const { name, description, cron: schedule, timezone, missed, ownerId } = row
  const flags = { enabled: row.enabled === 1, onlyWhenOnline: row.onlyWhenOnline === 1 }
  return { name, description, schedule, timezone, ...flags, missed, ownerId, steps: rows.readableSteps(row) }
}

function detailsOf(row: rows.ScheduleRow): Readonly<Record<string, unknown>> {
  return { serverId: row.serverId, ...fieldsOf(row), steps: masked(rows.readableSteps(row)) }
}

/** The steps as the audit log keeps them: what is typed by a schedule is masked as what people type. */
function masked(steps: readonly TaskStep[]): TaskStep[] {
  return steps.map((step) =>
    step.action === 'command' ? { ...step, payload: { command: typedCommand(step.payload.command) } } : step,
  )
}

function maskedChange(change: { readonly before: unknown; readonly after: unknown } | undefined) {
  if (change === undefined) return {}
  const { before, after } = change as { before: TaskStep[]; after: TaskStep[] } // as fieldsOf has them
  return { steps: { before: masked(before), after: masked(after) } }
}

function changed(serverId: string, updatedBy: string | null): NewEvent {
  return { type: 'server_updated', serverId, data: { updatedBy, change: 'tasks' } }
}
