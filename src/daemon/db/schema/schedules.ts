import type { Generated } from 'kysely'
import type { MissedRuns, TaskRunCause, TaskRunStatus } from '../../../shared/kernel/schedule.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface ScheduleTable extends Stamps {
  id: string
  serverId: string
  /** On whose behalf it runs; `null`: the account is gone, and nothing runs until somebody else takes it over. */
  ownerId: string | null
  /** By which key it was made, which bounds what its runs may do. */
  apiKeyId: string | null
  name: string
  description: string | null
  cron: string
  timezone: string
  steps: Json
  enabled: Flag
  /** It was enabled when its server was suspended, and is so again when that ends. */
  disabledBySuspension: Generated<Flag>
  onlyWhenOnline: Flag
  missed: MissedRuns
  /** When the next run is due; `null`: it is disabled, or its cron text cannot be read. */
  nextRunAt: IsoTime | null
  /** When that was counted: ahead of now where the clock was wrong then. */
  timedAt: IsoTime
  lastRunAt: IsoTime | null
  lastStatus: 'running' | 'success' | 'failed' | 'skipped' | null
  lastError: string | null
  runCount: Generated<number>
}

interface ScheduleRunTable {
  /** The order in which runs began. */
  seq: Generated<number>
  id: string
  scheduleId: string
  /** `null`: it was skipped. */
  jobId: string | null
  cause: TaskRunCause
  /** Who has started it by hand. */
  userId: string | null
  status: TaskRunStatus
  /** An error code, or why it was skipped, in a word. */
  reason: string | null
  error: string | null
  steps: Json
  /** Console lines by the number of the step. */
  output: Generated<Json>
  dueAt: IsoTime
  startedAt: IsoTime | null
  endedAt: IsoTime | null
}

/** What servers do at certain times. */
export interface SchedulesTables {
  schedule: ScheduleTable
  scheduleRun: ScheduleRunTable
}
