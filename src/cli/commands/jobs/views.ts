import type * as api from '../../../shared/api/jobs.ts'
import type { JobProgress, JobSummary } from '../../../shared/kernel/job.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { column, type View, wide } from '../../kit/output/view.ts'

export const JOBS: View<JobSummary> = {
  id: (row) => row.id,
  name: (row) => row.title,
  columns: [
    column('TITLE', (row) => row.title),
    column('STATUS', (row) => ({ status: statusOf(row) })),
    column('STEPS', (row) => `${row.steps.done}/${row.steps.total}`),
    column('PROGRESS', (row) => (row.progress === null ? null : progressText(row.progress))),
    column('STARTED BY', (row) => row.cause),
    column('CREATED', (row) => ({ time: row.createdAt })),
    column('ID', (row) => row.id),
    wide('KIND', (row) => row.kind),
    wide('STEP', (row) => row.steps.current),
    wide('NEXT ATTEMPT', (row) => ({ time: row.nextAttemptAt })),
    wide('ENDED', (row) => ({ time: row.endedAt })),
    wide('ERROR', (row) => row.error),
  ],
}

export const STEPS: View<api.JobStep> = {
  id: (row) => row.id,
  name: (row) => row.name,
  columns: [
    column('#', (row) => row.number),
    column('STEP', (row) => row.name),
    column('STATUS', (row) => ({ status: row.status })),
    column('ATTEMPTS', (row) => row.attempts),
    column('ENDED', (row) => ({ time: row.endedAt })),
    column('ERROR', (row) => row.error),
    wide('STARTED', (row) => ({ time: row.startedAt })),
    wide('ID', (row) => row.id),
  ],
}

/** What is under way of a job, or asked of it. */
export function statusOf({ status, requested }: JobSummary): string {
  if (requested === null) return status
  return requested === 'pause' ? 'pausing' : 'cancelling'
}

/** How far a job is, in its own unit. */
export function progressText({ done, total, unit, text }: JobProgress): string {
  const amount = (value: number): string => (unit === 'bytes' ? byteSize(value) : String(value))
  const known =
    unit === 'percent' ? `${Math.round(done)} %` : total === null ? amount(done) : `${amount(done)} of ${amount(total)}`
  return text === null ? known : `${known}, ${text}`
}
