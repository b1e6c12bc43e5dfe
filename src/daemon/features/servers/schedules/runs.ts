import { newId } from '../../../../shared/kernel/ids.ts'
import type { TaskRunCause, TaskStep } from '../../../../shared/kernel/schedule.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { findJob } from '../../../jobs/rows.ts'
import * as rows from './rows.ts'
import { RUN } from './run-type.ts'

/** What runs are begun and ended with. */
export interface RunDeps {
  readonly clock: Clock
  readonly bus: Bus
  readonly jobs: Pick<Jobs, 'queue'>
}

/** What of a run is known when it begins, or does not. */
export interface RunStart {
  readonly schedule: rows.ScheduleRow
  readonly cause: TaskRunCause
  readonly dueAt: IsoTime
}

/** For whom the steps of a run are carried out. */
export type RunFor = Pick<Caller, 'kind' | 'userId' | 'credentialId'>

/** Whom a schedule runs for at its times, as far as the key allows by which it was made; `undefined`: the account is gone. */
export function ownerOf({ ownerId, apiKeyId }: rows.ScheduleRow): RunFor | undefined {
  if (ownerId === null) return undefined
  if (apiKeyId !== null) return { kind: 'apiKey', userId: ownerId, credentialId: apiKeyId }
  return { kind: 'session', userId: ownerId, credentialId: '' }
}

/** Begins a run: its row, the job that carries it out, and the event. There must be none under way. */
export async function beginRun(
  tx: Tx,
  deps: RunDeps,
  start: RunStart & { readonly nodeId: string; readonly onBehalfOf: RunFor; readonly startedBy?: string },
): Promise<{ readonly runId: string; readonly jobId: string }> {
  const { schedule, onBehalfOf, startedBy } = start
  const { id: scheduleId, serverId, name } = schedule
  const runId = newId('srn', deps.clock)
  const steps = rows.stepsOf(schedule)
  const whose = `schedule ${name} of ${await nameOf(tx, schedule.ownerId)}`
  const by = startedBy === undefined ? '' : `, run by ${await nameOf(tx, startedBy)}`
  const job = { cause: whose + by, onBehalfOf, serverId, nodeId: start.nodeId, key: `${RUN.kind} ${scheduleId}` }
  const jobId = await deps.jobs.queue.add(tx, RUN, { input: { runId, scheduleId, serverId, name, steps }, ...job })
  if (jobId === undefined) throw new Error(`a job of the schedule ${scheduleId} is open without its run`)
  await insert(tx, start, {
    ...{ id: runId, jobId, userId: startedBy ?? null, status: 'running', startedAt: tx.now },
    steps: pendingSteps(steps),
  })
  await rows.updateSchedule(tx, scheduleId, {
    ...{ lastStatus: 'running', lastError: null, lastRunAt: tx.now, runCount: schedule.runCount + 1 },
  })
  await progressed(tx, deps, { serverId, scheduleId, name, runId, step: null, steps: steps.length })
  return { runId, jobId }
}

/** Writes down a run that does not take place, and why. */
export async function leaveOut(
  tx: Tx,
  deps: RunDeps,
  start: RunStart,
  why: { readonly status: 'skipped' | 'failed'; readonly reason: string; readonly error: string },
): Promise<void> {
  const { schedule } = start
  const runId = newId('srn', deps.clock)
  await insert(tx, start, { id: runId, jobId: null, userId: null, startedAt: null, endedAt: tx.now, ...why, steps: [] })
  await rows.updateSchedule(tx, schedule.id, { lastStatus: why.status, lastError: why.error })
  await completed(tx, deps, { schedule, runId, status: why.status, error: why.error })
  await rows.pruneRuns(tx, schedule.id)
}

/** Ends a run that is open: steps that were under way have failed with it, those after it are skipped. */
export async function endRun(
  tx: Tx,
  deps: RunDeps,
  run: rows.RunRow,
  end: {
    readonly status: 'success' | 'failed' | 'aborted'
    readonly error: string | null
    readonly reason: string | null
    /** The step that it ended at. */
    readonly at?: number
  },
): Promise<void> {
  if (run.endedAt !== null) return
  const isOver = end.status === 'success'
  const steps = rows.runStepsOf(run).map((step): rows.StoredStep => {
    const isCutOff = step.status === 'running' || (step.status === 'pending' && step.number === end.at)
    if (!isOver && isCutOff) return { ...step, status: 'failed', error: end.error, endedAt: tx.now }
    return step.status === 'pending' ? { ...step, status: 'skipped' } : step
  })
  const { status, error, reason } = end
  await rows.updateRun(tx, run.id, { status, error, reason, steps: JSON.stringify(steps), endedAt: tx.now })
  const schedule = await tx.q.selectFrom('schedule').selectAll().where('id', '=', run.scheduleId).executeTakeFirst()
  if (schedule === undefined) return
  const shown = status === 'aborted' ? 'failed' : status
  await rows.updateSchedule(tx, schedule.id, { lastStatus: shown, lastError: error })
  await completed(tx, deps, { schedule, runId: run.id, status: shown, error })
  await rows.pruneRuns(tx, schedule.id)
}

/**
 * The run of a schedule that is really under way. One whose job has ended without saying so, as a job of another version may,
 * is ended here: nothing stays running that nobody carries out.
 */
export async function runUnderWay(tx: Tx, deps: RunDeps, scheduleId: string): Promise<rows.RunRow | undefined> {
  const run = await rows.openRun(tx.q, scheduleId)
  if (run === undefined) return undefined
  const job = run.jobId === null ? undefined : await findJob(tx.q, run.jobId)
  if (job !== undefined && job.endedAt === null) return run
  await endRun(tx, deps, run, {
    status: 'failed',
    reason: 'INTERNAL_ERROR',
    error: 'Its job has ended without a result',
  })
  return undefined
}

/** Ends the run of a schedule that is under way, and what it has started; `undefined`: there is none. */
export async function abortRun(tx: Tx, deps: RunDeps, scheduleId: string, why: string): Promise<string | undefined> {
  const run = await runUnderWay(tx, deps, scheduleId)
  const job = run?.jobId == null ? undefined : await findJob(tx.q, run.jobId)
  if (run === undefined || job === undefined) return undefined
  await rows.updateRun(tx, run.id, { error: why })
  await deps.jobs.queue.cancel(tx, job)
  return run.id
}

/** Announces how far a run is. */
export async function progressed(
  tx: Tx,
  { bus }: Pick<RunDeps, 'bus'>,
  at: {
    readonly serverId: string
    readonly scheduleId: string
    readonly name: string
    readonly runId: string
    readonly step: number | null
    readonly steps: number
  },
): Promise<void> {
  const { serverId, scheduleId: taskId, name: taskName, runId, step, steps } = at
  await bus.append(tx, {
    type: 'task_progress',
    serverId,
    data: { taskId, taskName, runId, status: 'running', step, steps },
  })
}

async function completed(
  tx: Tx,
  { bus }: RunDeps,
  of: {
    readonly schedule: rows.ScheduleRow
    readonly runId: string
    readonly status: 'success' | 'failed' | 'skipped'
    readonly error: string | null
  },
): Promise<void> {
  const { schedule, runId, status, error } = of
  const { id: taskId, name: taskName, serverId } = schedule
  const now = await tx.q.selectFrom('schedule').select('lastRunAt').where('id', '=', taskId).executeTakeFirst()
  await bus.append(tx, {
    type: 'task_complete',
    serverId,
    data: { taskId, taskName, runId, status, lastRunAt: now?.lastRunAt ?? null, ...(error === null ? {} : { error }) },
  })
}

async function insert(
  tx: Tx,
  { schedule, cause, dueAt }: RunStart,
  of: Pick<rows.RunRow, 'id' | 'jobId' | 'userId' | 'status' | 'startedAt'> &
    Partial<Pick<rows.RunRow, 'endedAt' | 'reason' | 'error'>> & { readonly steps: readonly rows.StoredStep[] },
): Promise<void> {
  const { steps, ...columns } = of
  await tx.q
    .insertInto('scheduleRun')
    .values({
      ...{ scheduleId: schedule.id, cause, dueAt, reason: null, error: null, endedAt: null },
      ...columns,
      steps: JSON.stringify(steps),
    })
    .execute()
}

function pendingSteps(steps: readonly TaskStep[]): rows.StoredStep[] {
  return steps.map(({ action }, index) => ({
    ...{ number: index + 1, action, status: 'pending', error: null, commandId: null, jobId: null },
    ...{ startedAt: null, endedAt: null, typed: false },
  }))
}

async function nameOf(tx: Tx, userId: string | null): Promise<string> {
  if (userId === null) return 'nobody'
  const user = tx.q.selectFrom('user').select('username').where('id', '=', userId)
  return (await user.executeTakeFirst())?.username ?? 'nobody'
}
