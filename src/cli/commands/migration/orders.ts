import * as api from '../../../shared/api/migration.ts'
import type { MigrationId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { wantsToWait } from '../servers/power.ts'
import { jobOf, readJob, stepOf } from './job.ts'
import { leave, settle, waitFor } from './outcome.ts'
import { readKeys } from './source.ts'
import { MIGRATIONS, STEPS, statusOf } from './views.ts'

/** `panel migration pause`. */
export const pauseMigration: Action = async (run) => {
  const jobId = await jobOf(run)
  return awaitOrder(run, await call(run, api.pauseMigration, { params: { jobId } }), 'paused')
}

/** `panel migration cancel`. */
export const cancelMigration: Action = async (run) => {
  const jobId = await jobOf(run)
  const rollback = run.args.flag('rollback')
  await run.prompt.confirm(
    rollback ? `Cancel ${jobId} and remove what it has created?` : `Cancel the migration ${jobId}?`,
  )
  return awaitOrder(run, await call(run, api.cancelMigration, { params: { jobId }, body: { rollback } }), 'cancelled')
}

/** `panel migration resume`. */
export const resumeMigration: Action = async (run) => {
  const jobId = await jobOf(run)
  const { hasKeys, sourceUrl } = await readJob(run, jobId)
  const keys = await readKeys(run)
  const needsKey = !hasKeys && keys.key === undefined && !sourceUrl.startsWith('directory://')
  const asked =
    needsKey && run.prompt.possible
      ? { key: await run.prompt.secret('Application key of the source', '--key-stdin') }
      : {}
  const body = { ...keys, ...asked, retryFailed: run.args.flag('retry-failed') }
  return goOn(run, jobId, await call(run, api.resumeMigration, { params: { jobId }, body }))
}

/** `panel migration retry`. */
export const retrySteps: Action = async (run) => {
  const word = run.args.word('step')
  if ((word === undefined) !== run.args.flag('all-failed')) throw usage('name a step, or --all-failed')
  const jobId = await jobOf(run)
  if (word === undefined) {
    await refuseEnded(run, jobId)
    return goOn(run, jobId, await call(run, api.resumeMigration, { params: { jobId }, body: { retryFailed: true } }))
  }
  const step = await call(run, api.retryMigrationStep, { params: { jobId, stepId: await stepOf(run, jobId, word) } })
  if (wantsToWait(run)) return settle(run, jobId, { timeoutMs: run.args.duration('timeout') })
  await run.out.item(step, STEPS)
  return 0
}

/** One that has completed has given its keys up: what is missing comes with the next run. */
async function refuseEnded(run: Run, jobId: MigrationId): Promise<void> {
  const job = await readJob(run, jobId)
  if (job.status === 'paused' || job.status === 'failed') return
  const hint =
    job.status === 'completed' ? 'panel migration start brings what is missing' : `panel migration watch ${jobId}`
  throw new CliFailure('INVALID_STATE', `the migration is ${statusOf(job)}: it is not paused and has not failed`, {
    hint,
  })
}

async function goOn(run: Run, jobId: MigrationId, job: api.MigrationJob): Promise<number> {
  if (wantsToWait(run)) return settle(run, jobId, { timeoutMs: run.args.duration('timeout') })
  await run.out.item(job, MIGRATIONS)
  return 0
}

/** Waits, where that is wanted, until the migration is as it was ordered to be. */
async function awaitOrder(run: Run, job: api.MigrationJob, wanted: 'paused' | 'cancelled'): Promise<number> {
  if (!wantsToWait(run) || job.status === wanted) {
    await run.out.item(job, MIGRATIONS)
    return 0
  }
  const ending = await waitFor(run, job.id, { timeoutMs: run.args.duration('timeout'), until: wanted })
  if (ending.kind === 'left') return leave(run, job.id, ending)
  await run.out.item(ending.job, MIGRATIONS)
  if (ending.job.status === wanted) return 0
  throw new CliFailure('OPERATION_FAILED', `the migration is ${statusOf(ending.job)}, and not ${wanted}`, {
    hint: `panel migration view ${job.id}`,
  })
}
