import { JobProgress, type JobSummary } from '../../shared/kernel/job.ts'
import { isJson, parseJson } from '../db/json.ts'
import type { JobRow } from './rows.ts'

/** A job as answers and events show it. */
export function toSummary(row: JobRow): JobSummary {
  const { id, kind, title, status, requested, serverId, nodeId, parentId, userId, cause, error, errorCode } = row
  const { createdAt, startedAt, endedAt, updatedAt } = row
  return {
    id,
    kind,
    title,
    status,
    requested,
    serverId,
    nodeId,
    parentId,
    userId,
    cause,
    steps: { done: row.stepsDone, total: row.stepsTotal, current: row.currentStep },
    // One that is damaged hides no job.
    progress: row.progress !== null && isJson(JobProgress, row.progress) ? parseJson(JobProgress, row.progress) : null,
    error,
    errorCode,
    nextAttemptAt: status === 'queued' ? row.dueAt : null,
    createdAt,
    startedAt,
    endedAt,
    updatedAt,
  }
}
