import * as api from '../../../../shared/api/jobs.ts'
import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type OperationDeps, operationsOver, type Work } from '../../../access/operation.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { Unchanged } from '../../../jobs/queue.ts'
import { findJob, type JobRow, stepsOf } from '../../../jobs/rows.ts'
import { mayControl, maySee } from './rows.ts'
import { toJob } from './view.ts'

/** What the routes and operations of jobs need. */
export interface JobDeps extends OperationDeps {
  readonly jobs: Jobs
}

export const GONE = 'There is no such job, or you may not see it'
/** Steps that an answer shows. */
export const MOST_STEPS = 1000

const operation = operationsOver<JobDeps>()

export const pauseJob = operation(api.pauseJob, async (work, { params: { jobId } }) => {
  const before = await controllable(work, jobId)
  refuse(await work.deps.jobs.queue.pause(work.tx, before), before)
  return changed(work, before)
})

export const resumeJob = operation(api.resumeJob, async (work, { params: { jobId } }) => {
  const before = await controllable(work, jobId)
  refuse(await work.deps.jobs.queue.resume(work.tx, before), before)
  return changed(work, before)
})

export const cancelJob = operation(api.cancelJob, async (work, { params: { jobId } }) => {
  const before = await controllable(work, jobId)
  refuse(await work.deps.jobs.queue.cancel(work.tx, before), before)
  return changed(work, before)
})

export const retryJobStep = operation(api.retryJobStep, async (work, { params: { jobId, stepId } }) => {
  const before = await controllable(work, jobId)
  const found = work.tx.q.selectFrom('jobStep').selectAll().where('id', '=', stepId).where('jobId', '=', jobId)
  const step = (await found.executeTakeFirst()) ?? work.fail('JOB_STEP_NOT_FOUND', 'This job has no such step')
  refuse(await work.deps.jobs.queue.retryStep(work.tx, before, step), before)
  return changed(work, before, { stepId, step: step.name })
})

/** The job, as far as the principal may see it and change it. */
async function controllable(work: Work<Endpoint, JobDeps>, jobId: string): Promise<JobRow> {
  const viewer = work.caller ?? work.holder
  const row = await findJob(work.tx.q, jobId)
  if (row === undefined || !(await maySee({ q: work.tx.q, now: work.tx.now }, viewer, row))) {
    throw new PanelError('JOB_NOT_FOUND', GONE)
  }
  if (mayControl(viewer, row)) return row
  throw new PanelError('PERMISSION_DENIED', 'Only whoever started this job may change it, or an administrator', {
    meta: { missing: ['admin.write'] },
  })
}

/** Refuses what the queue has not changed. */
function refuse(unchanged: Unchanged | undefined, { status }: JobRow): void {
  switch (unchanged) {
    case undefined:
      return
    case 'background':
      throw new PanelError(
        'JOB_NOT_CONTROLLABLE',
        'The panel does this by itself; it cannot be paused, cancelled or retried',
      )
    case 'ended':
      throw new PanelError('JOB_ENDED', `This job has ended: it ${status}`, { meta: { status } })
    case 'not failed':
      throw new PanelError('JOB_STEP_NOT_FAILED', 'Only a step that has failed can be tried again', {
        meta: { status },
      })
    case 'not retryable':
      throw new PanelError('JOB_STEP_NOT_RETRYABLE', 'This step cannot be tried again; start a new job instead')
    case 'replaced':
      throw new PanelError('JOB_STEP_NOT_RETRYABLE', 'Another job that does the same is open; wait for its end')
  }
}

async function changed(
  { tx, deps }: Pick<Work<Endpoint, JobDeps>, 'tx' | 'deps'>,
  before: JobRow,
  more: Readonly<Record<string, unknown>> = {},
) {
  const row = (await findJob(tx.q, before.id)) ?? before
  const changes =
    row.updatedAt !== before.updatedAt || row.status !== before.status || row.requested !== before.requested
  const details = { kind: row.kind, title: row.title, ...more }
  return {
    answer: toJob(deps.jobs, row, await stepsOf(tx.q, row.id, MOST_STEPS)),
    audit: changes ? { resourceId: row.id, details } : undefined,
  }
}
