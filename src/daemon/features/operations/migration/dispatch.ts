import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { changeJob, changeStep } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { MigrationConfig } from './migration-config.ts'
import { planRollback } from './rollback.ts'
import { busyLanes, countSteps, findJob, lostSteps, type QueuedStep, readySteps, waitingSteps } from './rows.ts'
import { MIGRATION_STEP } from './step-job-type.ts'
import { NEED_LOST } from './step-states.ts'
import { CLEANUP, REPORT } from './steps/source-changes.ts'

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
  const { options } = parseJson(MigrationConfig, job.config)
  if (options.maxFailures !== undefined && counts.failed > options.maxFailures && counts.running === 0) {
    const error = `${counts.failed} steps have failed; it gives up after ${options.maxFailures}`
    await changeJob(tx, deps, { jobId, event: 'given_up', set: { error, errorCode: 'TOO_MANY_FAILURES' } })
    return
  }
  const room = Math.max(0, options.concurrency - counts.running)
  const ready = withinLanes(await readySteps(tx, jobId, room + LOOK_AHEAD), await busyLanes(tx, jobId)).slice(0, room)
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
    if (job.rollback === 1 && (await planRollback(tx, job))) return dispatch(tx, deps, jobId)
    await changeJob(tx, deps, { jobId, event: 'drained' })
    return
  }
  const outcome = counts.failed > 0 ? 'with_failures' : 'clean'
  await changeJob(tx, deps, { jobId, event: 'all_ended', set: { outcome } })
}

/** How many steps further are looked at where the first ones wait for their lanes. */
const LOOK_AHEAD = 40
/** Of each kind of lane so many are busy at a time. */
const MOST_OF_A_KIND = 2

/** Those whose lane is free, in their order: one at a time in each, and few of each kind. */
function withinLanes(steps: readonly QueuedStep[], busy: readonly string[]): QueuedStep[] {
  const taken = new Set(busy)
  const kinds = new Map<string, number>()
  const count = (lane: string): void => {
    const [kind = ''] = lane.split(' ')
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  }
  for (const lane of busy) count(lane)
  return steps.filter(({ lane }) => {
    if (lane === null) return true
    const [kind = ''] = lane.split(' ')
    if (taken.has(lane) || (kinds.get(kind) ?? 0) >= MOST_OF_A_KIND) return false
    taken.add(lane)
    count(lane)
    return true
  })
}

/** What has not begun when it is cancelled never does, but for what puts the source back and what says how far it came. */
async function leaveOut(tx: Tx, deps: MigrationDeps, jobId: string): Promise<void> {
  const rows = await tx.q
    .selectFrom('migrationStep')
    .select('id')
    .where('jobId', '=', jobId)
    .where('status', '=', 'pending')
    .where((on) => on.or([on('action', '!=', CLEANUP), on('intent', 'is', null)]))
    .where('action', 'not like', 'rollback_%')
    .where('action', '!=', REPORT)
    .orderBy('seq')
    .execute()
  for (const { id: stepId } of rows) {
    await changeStep(tx, deps, { jobId, stepId, event: 'cancel', set: { reason: 'cancelled' } })
  }
}
