import type { Principal } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'

/** What a backup step asks for. */
export interface BackupRequest {
  readonly serverId: string
  /** Without it the name that a backup gets by itself. */
  readonly name: string | undefined
  /** Patterns of what is left out. */
  readonly ignored: readonly string[]
  /** The run's job: whose rights count, and what the audit row names. */
  readonly principal: Principal
  /** The run's job is the parent of the one that is added, so that aborting the one cancels the other. */
  readonly parentId: string
}

/**
 * Adds the job that makes a backup, within this transaction, and answers its id; throws a PanelError, having written nothing,
 * where there can be none (quota, no store, a node that is away).
 */
export type StartBackup = (tx: Tx, request: BackupRequest) => Promise<string>

/** Where backups come from. While nothing is connected here, steps that make backups are refused when they are saved. */
export const startBackup: StartBackup | undefined = undefined
