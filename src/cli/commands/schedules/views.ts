import type { Task, TaskRun } from '../../../shared/api/schedules.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { stepText } from './steps.ts'

export const SCHEDULES = view<Task>([
  column('NAME', (row) => row.name),
  column('CRON', (row) => row.schedule),
  column('TIME ZONE', (row) => row.timezone),
  column('STEPS', (row) => row.steps.map(stepText).join(', ')),
  column('ENABLED', (row) => (row.disabledBySuspension ? 'suspended' : row.enabled)),
  column('NEXT', (row) => ({ time: row.nextRunAt })),
  column('LAST', (row) => ({ time: row.lastRunAt })),
  column('STATUS', (row) => (row.lastStatus === null ? null : { status: row.lastStatus })),
  column('ID', (row) => row.id),
  wide('OWNER', (row) => row.owner?.username),
  wide('IF ONLINE', (row) => row.onlyWhenOnline),
  wide('MISSED', (row) => row.missed),
  wide('RUNS', (row) => row.runCount),
  wide('ERROR', (row) => row.lastError),
  wide('DESCRIPTION', (row) => row.description),
])

export const RUNS: View<TaskRun> = {
  id: (row) => row.id,
  name: (row) => row.id,
  columns: [
    column('DUE', (row) => ({ time: row.dueAt })),
    column('STATUS', (row) => ({ status: row.status })),
    column('CAUSE', (row) => row.cause),
    column('STEPS', (row) => (row.steps.length === 0 ? null : row.steps.map(({ status }) => status).join(', '))),
    column('ENDED', (row) => ({ time: row.endedAt })),
    column('ERROR', (row) => row.error),
    column('ID', (row) => row.id),
    wide('REASON', (row) => row.reason),
    wide('JOB', (row) => row.jobId),
  ],
}
