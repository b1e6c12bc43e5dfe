import type { Clock } from '../../../../shared/kernel/time.ts'
import type { OperationDeps } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Gateway } from '../../../gateway/gateway.ts'
import type { Transfers } from '../../../gateway/transfers.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { UserDeps } from '../../accounts/users/deps.ts'
import type { TemplateDeps } from '../../catalog/templates/deps.ts'
import type { LocationDeps } from '../../fleet/locations/operations.ts'
import type { BackupDeps } from '../../servers/backups/deps.ts'
import type { DatabaseWork } from '../../servers/databases/database-work.ts'
import type { DatabaseDeps } from '../../servers/databases/deps.ts'
import type { ServerDeps } from '../../servers/servers/operations.ts'
import type { RunningSteps } from './running-steps.ts'
import type { Source } from './source/source.ts'

/** By what a source is reached. Its keys are secret. */
export type SourceAccess =
  | {
      readonly kind: 'panel'
      readonly url: string
      readonly key: string
      readonly clientApiKey: string | null
      readonly insecure: boolean
    }
  | { readonly kind: 'directory'; readonly nodeId: string; readonly path: string }

/** What migrations need. */
export interface MigrationDeps extends OperationDeps, LocationDeps, TemplateDeps, UserDeps, ServerDeps {
  readonly clock: Clock
  readonly log: Log
  readonly vault: Vault
  readonly settings: Settings
  readonly jobs: Jobs
  readonly gateway: Pick<Gateway, 'request' | 'isOnline' | 'can' | 'wake'>
  readonly transfers: Transfers
  /** Reaches a source and finds out of which kind it is; throws a `SourceFailure`. */
  openSource(access: SourceAccess, signal: AbortSignal): Promise<Source>
  readonly backups: BackupDeps
  readonly databases: DatabaseDeps & { readonly work: DatabaseWork }
  /** The steps that run in this process. */
  readonly running: RunningSteps
  /** Nodes whose agents are connected now. */
  isOnline(nodeId: string): boolean
}
