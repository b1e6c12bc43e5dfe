import type { z } from 'zod'
import type { Task, TaskRun, TaskRunDetail } from '../../../../shared/api/schedules.ts'
import { outputsOf, type RunRow, readableSteps, runStepsOf, type ShownRow } from './rows.ts'

const DAMAGED = 'Its steps are damaged and cannot be read; give them anew'

/** A schedule as the API answers it. */
export function toTask(row: ShownRow): z.input<typeof Task> {
  const { id, serverId, name, description, timezone, missed, lastRunAt, lastStatus, runId, runCount } = row
  const steps = readableSteps(row)
  const lastError = steps.length === 0 ? DAMAGED : row.lastError
  const [only] = steps.length === 1 ? steps : []
  const enabled = row.enabled === 1
  return {
    ...{ id, serverId, name, description, timezone, missed, lastRunAt, lastStatus, lastError, runId, runCount, steps },
    action: only?.action ?? null,
    payload: only?.payload ?? null,
    timeOffset: steps[0]?.timeOffset ?? 0,
    sequenceId: null,
    schedule: row.cron,
    enabled,
    disabledBySuspension: row.disabledBySuspension === 1,
    onlyWhenOnline: row.onlyWhenOnline === 1,
    owner: row.ownerId === null ? null : { id: row.ownerId, username: row.ownerName ?? '' },
    nextRunAt: enabled ? row.nextRunAt : null,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  }
}

/** A run as the history lists it. */
export function toRun(serverId: string, row: RunRow): z.input<typeof TaskRun> {
  const { id, scheduleId: taskId, status, cause, userId, jobId, reason, error, dueAt, startedAt, endedAt } = row
  const steps = runStepsOf(row)
  return { id, taskId, serverId, status, cause, userId, jobId, reason, error, dueAt, startedAt, endedAt, steps }
}

/** A run with what the console has said, to those who may read the console. */
export function toRunDetail(serverId: string, row: RunRow, withOutput: boolean): z.input<typeof TaskRunDetail> {
  const outputs = withOutput ? outputsOf(row) : {}
  const run = toRun(serverId, row)
  return { ...run, steps: run.steps.map((step) => ({ ...step, output: outputs[String(step.number)] ?? null })) }
}
