import type { Selectable } from 'kysely'
import { z } from 'zod'
import { TaskOutput } from '../../../../shared/api/schedules.ts'
import { SCHEDULE_LIMITS, type TaskRunStatus, TaskRunStep, TaskStep } from '../../../../shared/kernel/schedule.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { isJson, parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'

/** A schedule as it is stored. */
export type ScheduleRow = Selectable<Schema['schedule']>

/** A run as it is stored. */
export type RunRow = Selectable<Schema['scheduleRun']>

/** A schedule with what its answers need of its owner and of the run that is under way. */
export type ShownRow = NonNullable<Awaited<ReturnType<typeof findShown>>>

const Steps = z.array(TaskStep)
/** A step of a run as it is stored. */
export const StoredStep = TaskRunStep.extend({
  /** Its line is about to be typed, or was. */
  typed: z.boolean().default(false),
})
export type StoredStep = z.infer<typeof StoredStep>

const RunSteps = z.array(StoredStep)
const Outputs = z.record(z.string(), TaskOutput)

/** The steps of a row; throws where they are damaged. */
export function stepsOf({ steps }: Pick<ScheduleRow, 'steps'>): TaskStep[] {
  return parseJson(Steps, steps)
}

/** The same; none where they are damaged: one such row hides no others. */
export function readableSteps(row: Pick<ScheduleRow, 'steps'>): TaskStep[] {
  return isJson(Steps, row.steps) ? stepsOf(row) : []
}

/** How far the steps of a run are. */
export function runStepsOf({ steps }: Pick<RunRow, 'steps'>): StoredStep[] {
  return isJson(RunSteps, steps) ? parseJson(RunSteps, steps) : []
}

/** What the console has said, by the number of the step. */
export function outputsOf({ output }: Pick<RunRow, 'output'>): Readonly<Record<string, TaskOutput>> {
  // One that is damaged hides no run.
  return isJson(Outputs, output) ? parseJson(Outputs, output) : {}
}

function shown(q: Queries) {
  return q
    .selectFrom('schedule')
    .leftJoin('user', 'user.id', 'schedule.ownerId')
    .leftJoin('scheduleRun', (join) =>
      join.onRef('scheduleRun.scheduleId', '=', 'schedule.id').on('scheduleRun.endedAt', 'is', null),
    )
    .selectAll('schedule')
    .select(['user.username as ownerName', 'scheduleRun.id as runId'])
}

/** One page of the schedules of a server, oldest first. */
export async function listShown(q: Queries, serverId: string, query: { page: number; limit: number }) {
  const matching = shown(q).where('schedule.serverId', '=', serverId)
  const page = matching.orderBy('schedule.createdAt').orderBy('schedule.id')
  const rows = await page.limit(query.limit).offset(offsetOf(query)).execute()
  return { rows, total: await totalOf(q, matching, { query, found: rows.length }) }
}

/** The schedule of this server with this id. */
export async function findShown(q: Queries, serverId: string, id: string) {
  return shown(q).where('schedule.serverId', '=', serverId).where('schedule.id', '=', id).executeTakeFirst()
}

/** How many schedules a server has. */
export async function countOfServer(q: Queries, serverId: string): Promise<number> {
  const counted = q.selectFrom('schedule').select((eb) => eb.fn.countAll<number>().as('count'))
  return Number((await counted.where('serverId', '=', serverId).executeTakeFirstOrThrow()).count)
}

/** Writes columns; `updatedAt` only where somebody has changed what the schedule is. */
export async function updateSchedule(
  tx: Tx,
  id: string,
  set: Partial<Omit<ScheduleRow, 'id' | 'serverId' | 'createdAt'>>,
): Promise<void> {
  await tx.q.updateTable('schedule').set(set).where('id', '=', id).execute()
}

/** Writes down when a schedule is due next, counted by the clock of this transaction. */
export async function timeSchedule(tx: Tx, id: string, nextRunAt: IsoTime | null): Promise<void> {
  await updateSchedule(tx, id, { nextRunAt, timedAt: tx.now })
}

/** Moves a schedule to another time, unless it was moved meanwhile. */
export async function moveTime(
  tx: Tx,
  { id, nextRunAt }: Pick<ScheduleRow, 'id' | 'nextRunAt'>,
  to: IsoTime | null,
): Promise<void> {
  await tx.q
    .updateTable('schedule')
    .set({ nextRunAt: to, timedAt: tx.now })
    .where('id', '=', id)
    .where('nextRunAt', '=', nextRunAt)
    .execute()
}

/** The schedules whose time has come with the node of each, the one that has waited longest first. */
export async function dueSchedules(q: Queries, at: IsoTime, most: number) {
  return q
    .selectFrom('schedule')
    .innerJoin('server', 'server.id', 'schedule.serverId')
    .select(['schedule.id', 'schedule.nextRunAt', 'server.nodeId'])
    .where('schedule.nextRunAt', '<=', at)
    .orderBy('schedule.nextRunAt')
    .orderBy('schedule.id')
    .limit(most)
    .execute()
}

/** Schedules whose time is ahead, in the order of their ids, from this one on. */
export async function aheadSchedules(q: Queries, { at, after }: { at: IsoTime; after: string }, most: number) {
  const ahead = q.selectFrom('schedule').select(['id', 'cron', 'timezone', 'nextRunAt']).where('nextRunAt', '>', at)
  return ahead.where('id', '>', after).orderBy('id').limit(most).execute()
}

/** Schedules whose time was counted by a clock that was ahead of this moment. */
export async function timedAfter(q: Queries, at: IsoTime, most: number) {
  const timed = q.selectFrom('schedule').select(['id', 'cron', 'timezone', 'nextRunAt']).where('timedAt', '>', at)
  return timed.limit(most).execute()
}

/** When the next schedule is due. */
export async function firstDue(q: Queries): Promise<IsoTime | undefined> {
  const found = q.selectFrom('schedule').select('nextRunAt').where('nextRunAt', 'is not', null)
  return (await found.orderBy('nextRunAt').limit(1).executeTakeFirst())?.nextRunAt ?? undefined
}

/** The run of a schedule that is under way. */
export async function openRun(q: Queries, scheduleId: string): Promise<RunRow | undefined> {
  const open = q.selectFrom('scheduleRun').selectAll().where('scheduleId', '=', scheduleId)
  return open.where('endedAt', 'is', null).executeTakeFirst()
}

export async function findRun(q: Queries, id: string): Promise<RunRow | undefined> {
  return q.selectFrom('scheduleRun').selectAll().where('id', '=', id).executeTakeFirst()
}

/** One page of the runs of a schedule, newest first. */
export async function listRuns(
  q: Queries,
  scheduleId: string,
  query: { page: number; limit: number; status?: TaskRunStatus | undefined },
) {
  let matching = q.selectFrom('scheduleRun').where('scheduleId', '=', scheduleId)
  if (query.status !== undefined) matching = matching.where('status', '=', query.status)
  const page = matching.selectAll().orderBy('seq', 'desc').limit(query.limit).offset(offsetOf(query))
  const rows = await page.execute()
  return { rows, total: await totalOf(q, matching, { query, found: rows.length }) }
}

export async function updateRun(
  tx: Tx,
  id: string,
  set: Partial<Omit<RunRow, 'seq' | 'id' | 'scheduleId'>>,
): Promise<void> {
  await tx.q.updateTable('scheduleRun').set(set).where('id', '=', id).execute()
}

/** Changes one step of a run; nothing where the run is gone. */
export async function updateRunStep(tx: Tx, runId: string, number: number, set: Partial<StoredStep>): Promise<void> {
  const run = await findRun(tx.q, runId)
  if (run === undefined) return
  const steps = runStepsOf(run).map((step) => (step.number === number ? { ...step, ...set } : step))
  await updateRun(tx, runId, { steps: JSON.stringify(steps) })
}

/** Forgets runs beyond the newest of each schedule: skipped ones sooner, so that they push nothing out that has run. */
export async function pruneRuns(tx: Tx, scheduleId: string): Promise<void> {
  const ended = tx.q.selectFrom('scheduleRun').where('scheduleId', '=', scheduleId).where('endedAt', 'is not', null)
  for (const [runs, keep] of [
    [ended.where('status', '=', 'skipped'), SCHEDULE_LIMITS.skippedKept],
    [ended, SCHEDULE_LIMITS.runsKept],
  ] as const) {
    const beyond = await runs.select('seq').orderBy('seq', 'desc').offset(keep).limit(1).executeTakeFirst()
    if (beyond === undefined) continue
    const old = runs.select('seq').where('seq', '<=', beyond.seq)
    await tx.q.deleteFrom('scheduleRun').where('seq', 'in', old).execute()
  }
}
