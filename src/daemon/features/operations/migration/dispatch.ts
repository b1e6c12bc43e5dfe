import { z } from 'zod'
import { MigrationOptions } from '../../../../shared/api/migration.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { changeJob, changeStep } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { countSteps, findJob, lostSteps, readySteps, waitingSteps } from './rows.ts'
import { MIGRATION_STEP } from './step-job-type.ts'
import { NEED_LOST } from './step-states.ts'

/** The action that puts back what was changed on the source: it is carried out also when a migration is cancelled. */
export const CLEANUP = 'source_cleanup'

const Config = z.looseObject({ options: MigrationOptions })

/**
 * Takes a migration on after one of its steps has ended, or after it was resumed: leaves out what can no longer come, queues what can
 * begin, and ends it when nothing is left. Everything in the transaction of whoever calls, so that a stopped process leaves no gap.
 */
export async function dispatch(tx: Tx, deps: MigrationDeps, jobId: string): Promise<void> {
  const job = await findJob(tx.q, jobId)
  if (job?.status !== 'running') return
  // What depends on a lost step is lost too, and so on.
  for (let lost = await lostSteps(tx.q, jobId); lost.length > 0; lost = await lostSteps(tx.q, jobId)) {
    for (const { id, needsId } of lost) {
      const set = { reason: `${NEED_LOST}${needsId}` }
      await changeStep(tx, deps, { jobId, stepId: id, event: 'need_lost', set })
    }
  }
  if (job.requested === 'cancel') await leaveOut(tx, deps, jobId)
  // After that, so that what was left out no longer counts as pending.
  const counts = await countSteps(tx.q, jobId)
  if (job.requested === 'pause') {
    if (counts.running === 0) await changeJob(tx, deps, { jobId, event: 'drained' })
    return
  }
  const { options } = parseJson(Config, job.config)
  if (options.maxFailures !== undefined && counts.failed > options.maxFailures && counts.running === 0) {
    const error = `${counts.failed} steps have failed; it gives up after ${options.maxFailures}`
    await changeJob(tx, deps, { jobId, event: 'given_up', set: { error, errorCode: 'TOO_MANY_FAILURES' } })
    return
  }
  const ready = await readySteps(tx, jobId, Math.max(0, options.concurrency - counts.running))
  // Who asked is asked for rights again when each step begins.
  const onBehalfOf =
    job.createdBy === null ? undefined : ({ kind: 'session', userId: job.createdBy, credentialId: '' } as const)
  for (const { id: stepId, name, notBefore } of [...ready, ...(await waitingSteps(tx, jobId))]) {
    const at = notBefore ?? tx.now
    const cause = `migration ${jobId}`
    const added = { input: { jobId, stepId, name }, cause, onBehalfOf, at }
    await deps.jobs.queue.add(tx, MIGRATION_STEP, { ...added, key: `${MIGRATION_STEP.kind} ${jobId} ${stepId}` })
  }
  if (counts.pending > 0 || counts.running > 0) return
  if (job.requested === 'cancel') {
    await changeJob(tx, deps, { jobId, event: 'drained' })
    return
  }
  const outcome = counts.failed > 0 ? 'with_failures' : 'clean'
  await changeJob(tx, deps, { jobId, event: 'all_ended', set: { outcome } })
}

/** What has not begun when it is cancelled never does, but for what puts back what was changed on the source. */
async function leaveOut(tx: Tx, deps: MigrationDeps, jobId: string): Promise<void> {
  const touched = tx.q
    .selectFrom('migrationStep')
    .select('sourceId')
    .where('jobId', '=', jobId)
    .where('sourceType', '=', 'files')
    .where('attempt', '>', 0)
  const rows = await tx.q
    .selectFrom('migrationStep')
    .select('id')
    .where('jobId', '=', jobId)
    .where('status', '=', 'pending')
    .where((on) => on.or([on('action', '!=', CLEANUP), on('sourceId', 'not in', touched)]))
    .orderBy('seq')
    .execute()
  for (const { id: stepId } of rows) {
    await changeStep(tx, deps, { jobId, stepId, event: 'cancel', set: { reason: 'cancelled' } })
  }
}
