import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import type { SystemErrors } from '../../../core/system-errors.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { Transfers } from '../../../gateway/transfers.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { ConsoleGateway } from '../console/feed.ts'
import type { BackupStores } from './stores.ts'

/** Who has something done: their account, and by what they call; jobs of it run with their rights. */
export interface By {
  readonly userId: string | null
  readonly caller?: Caller | undefined
}

/** The panel by itself. */
export const NOBODY: By = { userId: null }

/** What backups of servers need. */
export interface BackupDeps extends OperationDeps {
  readonly clock: Clock
  readonly log: Log
  readonly settings: Settings
  readonly vault: Vault
  readonly systemErrors: Pick<SystemErrors, 'capture'>
  readonly gateway: ConsoleGateway & Pick<Gateway, 'connected'>
  readonly transfers: Transfers
  readonly stores: BackupStores
  readonly jobs: Pick<Jobs, 'queue'>
}
