import type { Generated, GeneratedAlways } from 'kysely'
import type {
  MigrationJobStatus,
  MigrationOutcome,
  MigrationPhase,
  MigrationStepStatus,
} from '../../../shared/kernel/migration.ts'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Flag, Json, Stamps } from './columns.ts'

interface MigrationJobTable extends Stamps {
  /** The order in which they were started. */
  seq: Generated<number>
  id: string
  status: MigrationJobStatus
  /** 1 while it is pending, validating or running: at most one is. */
  active: GeneratedAlways<1 | null>
  requested: 'pause' | 'cancel' | null
  /** Whether cancelling removes what it has created. */
  rollback: Generated<Flag>
  outcome: MigrationOutcome | null
  sourceKind: 'pterodactyl' | 'pelican' | 'directory' | null
  sourceUrl: string
  sourceVersion: string | null
  /** Known once the source was reached. */
  sourceFp: string | null
  /** What it was started with, without keys. */
  config: Json
  /** The keys of the source, sealed; `null`: it has none, or they are no longer kept. */
  keys: string | null
  /** When the keys of one that has failed are forgotten. */
  keysUntil: IsoTime | null
  plan: Json | null
  planHash: string | null
  report: Json | null
  currentPhase: MigrationPhase | null
  error: string | null
  errorCode: string | null
  createdBy: string | null
  startedAt: IsoTime | null
  completedAt: IsoTime | null
}

interface MigrationStepTable {
  jobId: string
  /** The same in every run from one source. */
  id: string
  seq: number
  phase: MigrationPhase
  action: string
  name: string
  sourceType: string | null
  sourceId: string | null
  targetId: string | null
  status: MigrationStepStatus
  reason: string | null
  /** The migration fails with it. */
  required: Generated<Flag>
  retryable: Generated<Flag>
  attempt: Generated<number>
  notBefore: IsoTime | null
  /** What it was planned to do, without secrets. */
  input: Json
  /** What it was about to do outside of the database when its attempt began. */
  intent: Json | null
  /** How far it came, where a further attempt need not begin anew. */
  checkpoint: Json | null
  result: Json | null
  error: string | null
  errorCode: string | null
  startedAt: IsoTime | null
  completedAt: IsoTime | null
  updatedAt: IsoTime
}

interface MigrationStepNeedTable {
  jobId: string
  stepId: string
  needsId: string
  /** `done`: it has to be completed, or skipped because its thing is there; `end`: it has to be over, however it went. */
  metBy: 'done' | 'end'
}

interface MigrationMapTable extends Stamps {
  id: string
  sourceFp: string
  sourceType: string
  sourceId: string
  targetType: string
  targetId: string
  /** Whether a migration has made the target, or found it there. */
  created: Flag
  /** Of the source's record when it was brought: another one means that there is something to bring. */
  contentHash: string
  /** Of what was written: another one means that somebody has changed the target since. */
  targetHash: string | null
  /** The migration that has brought it last. */
  jobId: string | null
}

/** What comes from another panel. */
export interface MigrationTables {
  migrationJob: MigrationJobTable
  migrationStep: MigrationStepTable
  migrationStepNeed: MigrationStepNeedTable
  migrationMap: MigrationMapTable
}
