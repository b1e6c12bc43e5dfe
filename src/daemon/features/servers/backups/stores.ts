import type { StoreAccess } from '../../../../shared/protocol/backups.ts'
import type { Queries } from '../../../db/db.ts'

/** A store as backups need it. */
export interface StoreFacts {
  readonly id: string
  readonly name: string
  readonly kind: 'local' | 's3'
}

/** What an agent gets to reach a store, until it is closed. */
export interface OpenStore {
  readonly access: StoreAccess
  close(): void
}

/** The stores of the panel, as backups use them. */
export interface BackupStores {
  find(q: Queries, storeId: string): Promise<StoreFacts | undefined>
  /** Where backups of a server go: by its own choice, else that of its node, its location, the panel. */
  ofServer(q: Queries, serverId: string): Promise<StoreFacts>
  /** Lets a node at the objects of one owner in a store; closed when the work ends. */
  open(
    storeId: string,
    grant: {
      readonly nodeId: string
      readonly ownerId: string
      readonly mode: 'read' | 'write'
      readonly signal: AbortSignal
    },
  ): Promise<OpenStore>
  /** The owners of what lies in an object store; `undefined` for a local one, which its node can list by itself. */
  owners(storeId: string, signal: AbortSignal): Promise<readonly string[] | undefined>
}
