import type { Clock } from '../../shared/time.ts'
import type { Audit } from '../core/audit.ts'
import type { Bus } from '../core/bus.ts'
import type { Credentials } from '../core/caller.ts'
import type { Db } from '../core/db.ts'
import type { Settings } from '../core/settings.ts'
import type { Passwords } from './passwords.ts'

/** What the routes of accounts work with. */
export interface AccountDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
  readonly clock: Clock
  readonly settings: Settings
  readonly credentials: Credentials
  readonly passwords: Passwords
}
