import type { MigrationPhase } from '../../../../shared/kernel/migration.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import type { MigrationDeps } from './deps.ts'
import { afterJobEvent, type JobEvent } from './job-states.ts'
import { forgetKeysInTime } from './keys-job.ts'
import { countSteps, findJob, findStep, JOB_COLUMNS, type MigrationRow, type MigrationStepRow } from './rows.ts'
import { afterStepEvent, type StepEvent } from './step-states.ts'

/** Further columns that change with a status. */
type JobChange = Partial<
  Pick<
    MigrationRow,
    | 'error'
    | 'errorCode'
    | 'outcome'
    | 'keys'
    | 'keysUntil'
    | 'planHash'
    | 'sourceFp'
    | 'sourceKind'
    | 'sourceVersion'
    | 'rollback'
  >
> & { readonly plan?: string }
type StepChange = Partial<
  Pick<
    MigrationStepRow,
    'reason' | 'retryable' | 'notBefore' | 'intent' | 'checkpoint' | 'result' | 'error' | 'errorCode' | 'targetId'
  >
>

/** How long the keys of a migration that has failed are kept for somebody to resume it. */
const KEYS_KEPT_MS = 7 * 24 * 3_600_000

/**
 * Takes a migration through an event, by the table alone, and announces it; `undefined`: the table refuses that, and nothing has changed.
 * The keys of the source go when it ends; where steps have failed, a week later.
 */
export async function changeJob(
  tx: Tx,
  { bus, jobs }: Pick<MigrationDeps, 'bus' | 'jobs'>,
  { jobId, event, set = {} }: { readonly jobId: string; readonly event: JobEvent; readonly set?: JobChange },
): Promise<MigrationRow | undefined> {
  const row = await findJob(tx.q, jobId)
  if (row === undefined) return undefined
  const after = afterJobEvent(row, event, { hasPlan: (set.planHash ?? row.planHash) !== null })
  if (after === undefined) return undefined
  const { status } = after
  const hasEnded = status === 'completed' || status === 'cancelled'
  // Somebody may have steps tried again that have failed.
  const mayGoOn = status === 'failed' || (status === 'completed' && set.outcome === 'with_failures')
  const changed = await tx.q
    .updateTable('migrationJob')
    .set({
      ...after,
      keysUntil: mayGoOn ? isoTime(Date.parse(tx.now) + KEYS_KEPT_MS) : null,
      ...(hasEnded && !mayGoOn ? { keys: null } : {}),
      ...(hasEnded || status === 'failed' ? { completedAt: tx.now, currentPhase: null } : { completedAt: null }),
      ...(status === 'validating' && row.startedAt === null ? { startedAt: tx.now } : {}),
      ...(status === 'running' || status === 'pending' ? { error: null, errorCode: null, outcome: null } : {}),
      ...set,
      updatedAt: tx.now,
    })
    .where('id', '=', jobId)
    .returning(JOB_COLUMNS)
    .executeTakeFirstOrThrow()
  if (changed.keysUntil !== null) await forgetKeysInTime(tx, { jobs })
  if (status !== row.status) await announceJob(tx, bus, { from: row.status, row: changed })
  return changed
}

async function announceJob(
  tx: Tx,
  bus: Bus,
  { from, row }: { readonly from: MigrationRow['status']; readonly row: MigrationRow },
): Promise<void> {
  const { id: jobId, status: to, error, errorCode } = row
  await bus.append(tx, { type: 'migration_status', data: { jobId, from, to, error, errorCode } })
  if (to === 'paused') await bus.append(tx, { type: 'migration_paused', data: { jobId } })
  if (to === 'cancelled') await bus.append(tx, { type: 'migration_cancelled', data: { jobId } })
  if (to === 'failed')
    await bus.append(tx, { type: 'migration_failed', data: { jobId, error: error ?? '', errorCode } })
  if (to === 'completed') {
    await bus.append(tx, { type: 'migration_completed', data: { jobId, outcome: row.outcome ?? 'clean' } })
  }
}

/** Takes a step through an event, by the table alone, and announces it; `undefined`: the table refuses that. */
export async function changeStep(
  tx: Tx,
  { bus }: { readonly bus: Bus },
  { jobId, stepId, event, set = {} }: { jobId: string; stepId: string; event: StepEvent; set?: StepChange },
): Promise<MigrationStepRow | undefined> {
  const row = await findStep(tx.q, jobId, stepId)
  if (row === undefined) return undefined
  const after = afterStepEvent({ ...row, retryable: row.retryable === 1 }, event)
  if (after === undefined) return undefined
  const hasEnded = after.status === 'completed' || after.status === 'failed' || after.status === 'skipped'
  const changed = await tx.q
    .updateTable('migrationStep')
    .set({
      ...after,
      ...(event === 'begin' ? { startedAt: tx.now, error: null, errorCode: null, notBefore: null } : {}),
      ...(event === 'retry' || event === 'repeat'
        ? { error: null, errorCode: null, reason: null, notBefore: null, startedAt: null }
        : {}),
      completedAt: hasEnded ? tx.now : null,
      ...set,
      updatedAt: tx.now,
    })
    .where('jobId', '=', jobId)
    .where('id', '=', stepId)
    .returningAll()
    .executeTakeFirstOrThrow()
  const { phase, action, name, status, attempt, reason, error, errorCode } = changed
  const data = { jobId, stepId, phase, action, name, status, attempt, reason, error, errorCode }
  await bus.append(tx, { type: 'migration_step_updated', data })
  if (hasEnded) await announceProgress(tx, bus, { jobId, phase })
  return changed
}

/** Announces that the source wants to be left alone, or wanted it. */
export async function announceThrottle(
  tx: Tx,
  { bus }: { readonly bus: Bus },
  data: { readonly jobId: string; readonly waitSeconds: number },
): Promise<void> {
  await bus.append(tx, { type: 'migration_throttled', data })
}

/** Announces how far a step is that takes long. */
export async function announceStep(
  tx: Tx,
  { bus }: { readonly bus: Bus },
  data: {
    readonly jobId: string
    readonly stepId: string
    readonly bytes: number
    readonly totalBytes: number | null
    readonly entries: number
  },
): Promise<void> {
  await bus.append(tx, { type: 'migration_step_progress', data })
}

async function announceProgress(
  tx: Tx,
  bus: Bus,
  { jobId, phase }: { readonly jobId: string; readonly phase: MigrationPhase },
): Promise<void> {
  const { total, completed, failed, skipped } = await countSteps(tx.q, jobId)
  await tx.q
    .updateTable('migrationJob')
    .set({ currentPhase: phase, updatedAt: tx.now })
    .where('id', '=', jobId)
    .execute()
  await bus.append(tx, {
    type: 'migration_progress',
    data: { jobId, phase, progress: { total, completed, failed, skipped } },
  })
}
