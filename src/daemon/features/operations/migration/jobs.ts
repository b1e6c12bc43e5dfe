import type { Jobs } from '../../../jobs/jobs.ts'
import type { MigrationDeps } from './deps.ts'
import { registerKeys } from './keys-job.ts'
import { OpenSources } from './open-sources.ts'
import { registerPlans } from './plan-job.ts'
import { registerSteps } from './step-job.ts'

/** Gives the engine all work of migrations; the answer ends what they have open. */
export function registerMigrations(jobs: Jobs, deps: MigrationDeps): () => Promise<void> {
  const sources = new OpenSources(deps)
  registerPlans(jobs, { ...deps, sources })
  registerSteps(jobs, { ...deps, sources })
  registerKeys(jobs, deps)
  const stop = deps.bus.listen(({ type, data }) => {
    if (type !== 'migration_status' || !ENDED.has(String(data['to']))) return
    void sources.end(String(data['jobId']))
  })
  return async () => {
    stop()
    await sources.close()
  }
}

/** It may go on later, and opens its source anew then. */
const ENDED = new Set(['paused', 'completed', 'failed', 'cancelled'])
