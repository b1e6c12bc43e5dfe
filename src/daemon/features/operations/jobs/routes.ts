import * as api from '../../../../shared/api/jobs.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { findJob, stepsOf } from '../../../jobs/rows.ts'
import * as operations from './operations.ts'
import { listVisible, maySee } from './rows.ts'
import { toJob } from './view.ts'

/** The routes of jobs. */
export function jobRoutes(deps: operations.JobDeps & { readonly clock: Clock }): Route[] {
  const { db, clock } = deps
  const at = () => ({ q: db.read, now: now(clock) })
  return [
    route(api.listJobs, ({ query }, context) => listVisible(at(), callerOf(context), query)),
    route(api.getJob, async ({ params: { jobId } }, context) => {
      const row = await findJob(db.read, jobId)
      if (row === undefined || !(await maySee(at(), callerOf(context), row)))
        return context.fail('JOB_NOT_FOUND', operations.GONE)
      return toJob(deps.jobs, row, await stepsOf(db.read, jobId, operations.MOST_STEPS))
    }),
    operate(operations.pauseJob, deps),
    operate(operations.resumeJob, deps),
    operate(operations.cancelJob, deps),
    operate(operations.retryJobStep, deps),
  ]
}
