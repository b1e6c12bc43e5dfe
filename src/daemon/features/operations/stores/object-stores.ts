import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { StoreAccess } from '../../../../shared/protocol/backups.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Db } from '../../../db/db.ts'
import type { StoreGrant, StoreTickets } from '../../../gateway/store-tickets.ts'
import type { ObjectStore } from '../../../object-store/object-store.ts'
import { createS3Store } from '../../../object-store/s3-store.ts'
import { StoreFailure } from '../../../object-store/store-failure.ts'
import { findStore, type StoreRow, settingsOf } from './rows.ts'

interface ObjectStoresDeps {
  readonly db: Pick<Db, 'read'>
  readonly vault: Vault
  readonly clock: Clock
}

/** The place of a store's secret in the vault. */
export function secretPlace(storeId: string): string {
  return `backup_store.secret ${storeId}`
}

/** The object stores of the table, each with its credentials as they are now; connections are shared by all who ask. */
export class ObjectStores {
  readonly #deps: ObjectStoresDeps
  readonly #open = new Map<string, { readonly version: string; readonly store: ObjectStore }>()

  constructor(deps: ObjectStoresDeps) {
    this.#deps = deps
  }

  /** The store of this id. Fails with BACKUP_STORE_NOT_FOUND, CREDENTIAL_ENCRYPTION_KEY_MISSING, or BACKUP_STORE_FAILED when another key has sealed its secret. */
  async find(storeId: string): Promise<ObjectStore> {
    const row = await findStore(this.#deps.db.read, storeId)
    if (row === undefined) throw new PanelError('BACKUP_STORE_NOT_FOUND', 'There is no backup store with this id')
    return this.of(row)
  }

  /** The same of a row. */
  of(row: StoreRow): ObjectStore {
    const settings = settingsOf(row)
    if (settings.kind !== 's3')
      throw new PanelError('VALIDATION_ERROR', `${row.name} is a folder of nodes, not an object store`)
    const known = this.#open.get(row.id)
    const version = `${row.settings} ${row.secret}`
    if (known?.version === version) return known.store
    const { clock, vault } = this.#deps
    const { kind: _, ...place } = settings
    const store = createS3Store({ ...place, secretAccessKey: openSecret(vault, row) }, clock)
    this.#open.set(row.id, { version, store })
    // Requests that are under way with the old credentials end by themselves, with the reason that they then have.
    void known?.store.close()
    return store
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.values()].map(({ store }) => store.close()))
    this.#open.clear()
  }
}

/** The secret of a store in clear. */
export function openSecret(vault: Vault, { id, name, secret }: Pick<StoreRow, 'id' | 'name' | 'secret'>): string {
  try {
    return vault.open(secretPlace(id), secret ?? '')
  } catch (cause) {
    if (cause instanceof PanelError) throw cause
    const what = `the stored secret of ${name} was sealed by another key; set it again, or bring the key back`
    throw new StoreFailure('credentials', what, { cause })
  }
}

/** How an agent reaches a store for the backups of one owner: what goes into its requests, until `close` is called or the signal aborts. */
export function openStoreAccess(
  tickets: StoreTickets,
  store: StoreRow,
  grant: Omit<StoreGrant, 'storeId'>,
): { readonly access: StoreAccess; close(): void } {
  const settings = settingsOf(store)
  if (settings.kind === 'local') {
    return { access: { kind: 'local', storeId: store.id, folder: settings.folder }, close: () => {} }
  }
  const { ticket, close } = tickets.open({ ...grant, storeId: store.id })
  return { access: { kind: 's3', storeId: store.id, ticket }, close }
}
