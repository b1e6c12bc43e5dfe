import type { Clock } from '../../../shared/kernel/time.ts'
import type { Audit } from '../../access/audit.ts'
import type { Credentials } from '../../access/caller.ts'
import type { Bus } from '../../core/bus.ts'
import type { Log } from '../../core/log.ts'
import type { Vault } from '../../core/secrets.ts'
import type { Settings } from '../../core/settings.ts'
import type { SystemErrors } from '../../core/system-errors.ts'
import type { Db } from '../../db/db.ts'
import type { Jobs } from '../../jobs/jobs.ts'
import type { Inject } from './panel-api.ts'

/** What plugins are kept with. */
export interface PluginDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  readonly settings: Settings
  readonly credentials: Credentials
  readonly log: Log
  readonly vault: Vault
  readonly systemErrors: SystemErrors
  readonly version: string
  readonly dataDir: string
  readonly jobs: Jobs
  /** Answers a request inside of this process. */
  readonly inject: Inject
}
