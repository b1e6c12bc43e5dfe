import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Credentials } from '../../../access/caller.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import type { Mailer } from '../../signals/mail/mailer.ts'
import type { Deliveries } from './deliveries.ts'
import type { Passwords } from './passwords.ts'
import type { Turns } from './turns.ts'

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

/** What a check of a password or code works with: attempts of one address happen one after the other, so each sees the last. */
export interface SignInDeps extends AccountDeps {
  readonly turns: Turns
  readonly vault: Vault
  readonly mailer: Mailer
  readonly deliveries: Deliveries
  /** Where this panel is reached, for the text of mails. */
  readonly publicUrl: () => string
}
