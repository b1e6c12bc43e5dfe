import { BackupName, createBackup } from '../../../../../shared/api/backups.ts'
import type { TaskStep } from '../../../../../shared/kernel/schedule.ts'
import { recordChange } from '../../../../access/operation.ts'
import type { Db, Tx } from '../../../../db/db.ts'
import { findJob } from '../../../../jobs/rows.ts'
import type { BackupDeps } from '../../backups/deps.ts'
import { requestBackup } from '../../backups/operations.ts'
import type { RunState } from '../run-type.ts'
import { failureOf, type Outcome, type RunJob, refused } from './outcome.ts'

/** What backup steps work with. */
export interface BackupStepDeps {
  readonly db: Db
  readonly backups: BackupDeps
}

/**
 * Adds the job that makes the backup, within the transaction that writes down that it was added. It has the rights of the
 * run, whose job is its parent: aborting the one cancels the other.
 */
export async function startBackup(
  tx: Tx,
  { backups }: BackupStepDeps,
  job: RunJob,
  { payload: { name, ignored = [] } }: Extract<TaskStep, { action: 'backup' }>,
): Promise<Pick<RunState, 'backupJobId' | 'refusal'>> {
  const { id: jobId, principal } = job
  const run = await findJob(tx.q, jobId)
  if (run === undefined || run.userId === null) throw new Error(`the run of the job ${jobId} is nobody's`)
  const { userId, apiKeyId, cause } = run
  const kind = apiKeyId === null ? 'session' : 'apiKey'
  const caller = { kind, userId, credentialId: apiKeyId ?? '' } as const
  const named = name === undefined ? {} : { name: BackupName.parse(name) }
  const wanted = { ...named, ignored, by: { userId, caller }, cause, parentId: jobId }
  try {
    const { answer, audit } = await requestBackup(tx, backups, job.input.serverId, wanted)
    await recordChange(tx, { deps: backups, principal, endpoint: createBackup }, { audit })
    return { backupJobId: answer.jobId, refusal: null }
  } catch (error) {
    const { code, error: message } = failureOf(error)
    return { backupJobId: null, refusal: { code, error: message } }
  }
}

/** How the job that makes the backup has ended; `undefined`: it has not. */
export async function backupOutcome({ db }: BackupStepDeps, { state }: RunJob): Promise<Outcome | undefined> {
  const backup = state.backupJobId === null ? undefined : await findJob(db.read, state.backupJobId)
  if (backup === undefined) return refused('JOB_NOT_FOUND', 'The job of the backup is gone')
  if (backup.endedAt === null) return undefined
  if (backup.status === 'succeeded') return { ok: true }
  const why = backup.error ?? 'no reason is known'
  return refused(backup.errorCode ?? 'BACKUP_FAILED', `The backup ${backup.status}: ${why}`)
}
