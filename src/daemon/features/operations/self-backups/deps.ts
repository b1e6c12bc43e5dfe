import type { Clock } from '../../../../shared/kernel/time.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import type { Settings } from '../../../core/settings.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { ObjectStores } from '../stores/object-stores.ts'

/** What backups of the panel itself need. */
export interface SelfBackupDeps extends OperationDeps {
  readonly clock: Clock
  readonly log: Log
  readonly settings: Settings
  readonly systemErrors: SystemErrors
  readonly jobs: Jobs
  readonly stores: ObjectStores
  readonly version: string
  readonly credentialKey: string | undefined
  /** Where stores of the kind `local` have backups of the panel. */
  readonly backupDir: string
  /** For copies that are on their way; emptied at each start. */
  readonly workDir: string
}
