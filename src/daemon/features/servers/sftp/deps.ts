import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { AccountDeps } from '../../accounts/auth/deps.ts'
import type { Passwords } from '../../accounts/auth/passwords.ts'
import type { Turns } from '../../accounts/auth/turns.ts'
import type { Mailer } from '../../signals/mail/mailer.ts'

/** What SFTP of servers needs. */
export interface SftpDeps extends OperationDeps, AccountDeps {
  readonly clock: Clock
  readonly settings: Settings
  readonly credentials: Credentials
  readonly passwords: Passwords
  readonly turns: Turns
  readonly mailer: Pick<Mailer, 'isConfigured'>
  readonly gateway: Pick<Gateway, 'request' | 'can'>
  readonly log: Log
}
