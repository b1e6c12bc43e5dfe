import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Db } from '../../../db/db.ts'

/** What databases and their hosts need of the daemon. */
export interface DatabaseDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  readonly log: Log
  readonly vault: Vault
  readonly systemErrors: Pick<SystemErrors, 'capture'>
}
