import type { Generated } from 'kysely'
import type { JobStatus, JobStepStatus } from '../../../shared/kernel/job.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface JobTable extends Stamps {
  /** The order in which jobs were made, which is their order in a lane. */
  seq: Generated<number>
  id: string
  kind: string
  title: string
  /** By the schema of its kind; neither holds secrets. */
  input: Json
  state: Json
  status: JobStatus
  requested: 'pause' | 'cancel' | null
  /** Jobs of one lane are carried out one after the other; a pool bounds how many of its lanes are worked on at a time. */
  pool: string
  lane: string
  /** Holds up what comes after it in its lane until it has ended, also while it waits or is paused. */
  ordered: Flag
  /** When the runner looks at it next; of a running job the end of its lease. `null`: ended, paused, or not its turn. */
  dueAt: IsoTime | null
  /** Not due before this, whenever its turn comes. */
  notBefore: IsoTime
  /** Counts who has taken it up; an update by an earlier one changes nothing. */
  fence: number
  /** At most one open job has it. */
  jobKey: string | null
  /** The panel's own, again and again: left out of lists and forgotten when it ends. */
  background: Flag
  parentId: string | null
  serverId: string | null
  nodeId: string | null
  /** `user`: on behalf of `userId`, as far as the API key allows by which that user has started it. */
  principal: 'user' | 'panel'
  userId: string | null
  apiKeyId: string | null
  cause: string
  stepsDone: number
  stepsTotal: number
  currentStep: string | null
  progress: Json | null
  error: string | null
  errorCode: string | null
  startedAt: IsoTime | null
  endedAt: IsoTime | null
}

interface JobStepTable {
  id: string
  jobId: string
  number: number
  /** The step of the kind. */
  step: string
  name: string
  status: JobStepStatus
  attempts: number
  error: string | null
  errorCode: string | null
  startedAt: IsoTime | null
  endedAt: IsoTime | null
}

/** Work that outlives the process that began it. */
export interface JobsTables {
  job: JobTable
  jobStep: JobStepTable
}
