import type { Jobs } from '../../../jobs/jobs.ts'
import { registerCreate } from './create-job.ts'
import { registerDelete } from './delete-job.ts'
import type { BackupDeps } from './deps.ts'
import { registerPrune } from './prune-job.ts'
import { registerRestore } from './restore-job.ts'
import { registerResume } from './resume-job.ts'
import { registerUpkeep } from './upkeep.ts'
import { registerVerify } from './verify-job.ts'

/** Gives the engine all types of jobs of backups. */
export function registerBackups(jobs: Pick<Jobs, 'register'>, deps: BackupDeps): void {
  registerCreate(jobs, deps)
  registerRestore(jobs, deps)
  registerDelete(jobs, deps)
  registerVerify(jobs, deps)
  registerPrune(jobs, deps)
  registerResume(jobs, deps)
  registerUpkeep(jobs, deps)
}
