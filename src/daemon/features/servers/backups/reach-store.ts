import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { StoreAccess } from '../../../../shared/protocol/backups.ts'
import type { BackupDeps } from './deps.ts'
import type { ShownBackup } from './rows.ts'

/** A backup in its store. */
export type Placed = Pick<ShownBackup, 'id' | 'ownerId' | 'storeId' | 'storeKind' | 'nodeId' | 'kind'>

/**
 * The node that can reach a backup: of a local store the one where it lies, of others any, first `preferred`. Fails with NODE_OFFLINE when
 * it is away, or gone for ever.
 */
export function nodeOf({ gateway }: Pick<BackupDeps, 'gateway'>, backup: Placed, preferred: string | null): string {
  if (backup.storeKind === 'local') {
    if (backup.nodeId !== null) return backup.nodeId
    throw new PanelError('NODE_OFFLINE', 'The node on which this backup lies was deleted; nobody can reach it')
  }
  const able = (nodeId: string | null): nodeId is string =>
    nodeId !== null && gateway.isOnline(nodeId) && gateway.can(nodeId, 'backups@1')
  const found = [preferred, backup.nodeId, ...gateway.connected()].find(able)
  if (found !== undefined) return found
  throw new PanelError('NODE_OFFLINE', 'No node is connected that can reach the store of this backup')
}

/** Works with a store as a node sees it; it is open so long. */
export async function withStore<T>(
  { stores }: Pick<BackupDeps, 'stores'>,
  storeId: string,
  grant: Parameters<BackupDeps['stores']['open']>[1],
  work: (store: StoreAccess) => Promise<T>,
): Promise<T> {
  const open = await stores.open(storeId, grant)
  try {
    return await work(open.access)
  } finally {
    open.close()
  }
}

/** What names a backup to an agent. */
export function stored(backup: Placed, store: StoreAccess) {
  return { store, ownerId: backup.ownerId, backupId: backup.id, kind: backup.kind }
}
