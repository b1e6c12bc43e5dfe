import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { StoreAccess } from '../../../../shared/protocol/backups.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db, Queries } from '../../../db/db.ts'
import type { StoreGrant, StoreTickets } from '../../../gateway/store-tickets.ts'
import { type ObjectStores, openStoreAccess } from '../../operations/stores/object-stores.ts'
import { findStore, type StoreRow } from '../../operations/stores/rows.ts'
import { storeFor } from '../../operations/stores/store-for.ts'

/** A store as backups need it. */
export type StoreFacts = Pick<StoreRow, 'id' | 'name' | 'kind'>

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
  open(storeId: string, grant: Omit<StoreGrant, 'storeId'>): Promise<OpenStore>
  /** The owners of what lies in an object store; `undefined` for a local one, which its node can list by itself. */
  owners(store: StoreFacts, signal: AbortSignal): Promise<readonly string[] | undefined>
}

/** Owners of one store at most. */
const MOST_OWNERS = 100_000

/** Makes it over the table of stores. */
export function createBackupStores({
  db,
  settings,
  objects,
  tickets,
}: {
  readonly db: Pick<Db, 'read'>
  readonly settings: Pick<Settings, 'get'>
  readonly objects: ObjectStores
  readonly tickets: StoreTickets
}): BackupStores {
  return {
    find: findStore,
    ofServer: async (q, serverId) => (await storeFor(q, settings, { id: serverId })).store,
    open: async (storeId, grant) => {
      const store = await findStore(db.read, storeId)
      if (store === undefined) throw new PanelError('BACKUP_STORE_NOT_FOUND', 'The store of this backup is gone')
      return openStoreAccess(tickets, store, grant)
    },
    owners: async ({ id, kind }, signal) => {
      if (kind === 'local') return undefined
      const store = await objects.find(id)
      const owners: string[] = []
      for (let after: string | null = null; owners.length < MOST_OWNERS; ) {
        const page = await store.list({ prefix: PREFIX, after, limit: 1 }, signal)
        const owner = page.objects[0]?.key.slice(PREFIX.length).split('/')[0]
        if (owner === undefined) break
        owners.push(owner)
        after = `${PREFIX}${owner}/\u{10ffff}` // behind all that is below it
      }
      return owners
    },
  }
}

const PREFIX = 'servers/'
