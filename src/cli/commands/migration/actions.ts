import * as api from '../../../shared/api/migration.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { call } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { jobOf, stepsIn } from './job.ts'
import { CONFLICTS, MIGRATIONS, NODES, STEPS } from './views.ts'

const SHOWN_FAILED = 20

/** `panel migration nodes`. */
export const listNodes: Action = async (run) => {
  await run.out.list(await call(run, api.listTargetNodes, { params: {} }), NODES)
}

/** `panel migration list`. */
export const listMigrations = listAction(api.listMigrations, MIGRATIONS)

/** `panel migration view`. */
export const viewMigration: Action = async (run) => {
  const jobId = await jobOf(run)
  const job = await call(run, api.getMigration, { params: { jobId } })
  await run.out.item(job, MIGRATIONS)
  if (run.out.machine || run.out.format === 'csv') return
  if (job.error !== null) run.notice(`\n${oneLine(job.error)}`)
  const conflicts = job.plan?.conflicts ?? []
  if (conflicts.length > 0) {
    run.notice('')
    await run.out.list(conflicts, CONFLICTS)
  }
  const failed = job.progress.failed === 0 ? [] : await stepsIn(run, jobId, { status: 'failed', most: SHOWN_FAILED })
  if (failed.length > 0) {
    run.notice('')
    await run.out.list(failed, STEPS)
  }
  if (job.progress.failed > failed.length) run.notice(`all of them: panel migration steps ${jobId} --failed --all`)
  if (job.report !== null) run.notice(`\npanel migration report ${jobId}`)
}

/** `panel migration steps`. */
export const listSteps = listAction(api.listMigrationSteps, STEPS, async (run) => {
  const [failed, status] = [run.args.flag('failed'), run.args.text('status')]
  if (failed && status !== undefined && status !== 'failed') throw usage('--failed and --status exclude each other')
  return { params: { jobId: await jobOf(run) }, query: failed ? { status: 'failed' } : {} }
})
