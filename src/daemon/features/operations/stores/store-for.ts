import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'
import { findByRef, findStore, LOCAL_STORE, type StoreRow } from './rows.ts'

/** Where a server's backups go, and which of the four has said so. */
export interface StoreChoice {
  readonly store: StoreRow
  readonly by: 'server' | 'node' | 'location' | 'setting' | 'built-in'
}

/**
 * Where new backups of a server go: where the server says, else its node, else the node's location, else `backups.defaultStore`, else the
 * built-in `local`. Fails with BACKUP_STORE_NOT_FOUND where the setting names a store that there is not: a backup that lands
 * elsewhere than the operator believes is worse than none.
 */
export async function storeFor(
  q: Queries,
  settings: Pick<Settings, 'get'>,
  server: { readonly id: string },
): Promise<StoreChoice> {
  const row = await q
    .selectFrom('server')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .innerJoin('location', 'location.id', 'node.locationId')
    .select(['server.backupStoreId as server', 'node.backupStoreId as node', 'location.backupStoreId as location'])
    .where('server.id', '=', server.id)
    .executeTakeFirst()
  for (const by of ['server', 'node', 'location'] as const) {
    const id = row?.[by]
    const store = id === null || id === undefined ? undefined : await findStore(q, id)
    if (store !== undefined) return { store, by }
  }
  const named = settings.get('backups.defaultStore')
  return { store: await defaultStore(q, settings), by: named === null ? 'built-in' : 'setting' }
}

/** The store of what says nothing else; fails like {@link storeFor}. */
export async function defaultStore(q: Queries, settings: Pick<Settings, 'get'>): Promise<StoreRow> {
  const named = settings.get('backups.defaultStore')
  const store = await findByRef(q, named ?? LOCAL_STORE)
  if (store !== undefined) return store
  throw new PanelError(
    'BACKUP_STORE_NOT_FOUND',
    `There is no backup store ${named}, which backups.defaultStore names; add it, or name another one`,
  )
}
