import * as api from '../../../../shared/api/backup-stores.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { StoreDeps } from './operations.ts'
import * as operations from './operations.ts'
import * as rows from './rows.ts'
import { defaultStore } from './store-for.ts'
import { type StoreTestDeps, testStore } from './store-test.ts'
import { present } from './view.ts'

/** The routes of backup stores, and the way of agents to them. */
export function backupStoreRoutes(deps: StoreDeps & StoreTestDeps): Route[] {
  const { db, settings, tickets } = deps
  // What the setting names may be gone, which is no reason to show nothing.
  const defaultId = async (): Promise<string> =>
    defaultStore(db.read, settings).then(
      ({ id }) => id,
      (error: unknown) => {
        if (error instanceof PanelError) return ''
        throw error
      },
    )
  return [
    route(api.listBackupStores, async ({ query }) => {
      const { items, total } = await rows.listStores(db.read, query)
      const id = await defaultId()
      return { items: items.map((row) => present(row, id)), total }
    }),
    route(api.getBackupStore, async ({ params }, context) => {
      const row = await rows.findCounted(db.read, params.storeId)
      return present(row ?? context.fail('BACKUP_STORE_NOT_FOUND', operations.GONE), await defaultId())
    }),
    route(api.listBackupStoreDefaults, async ({ query }) => {
      const { items, total } = await rows.listDefaults(db.read, query)
      return {
        items: items.map(({ scope, id, name, storeId, storeName }) => ({
          ...{ scope, id, name },
          // The column holds ids that newId or a migration made.
          store: { id: storeId as api.BackupStore['id'], name: storeName },
        })),
        total,
      }
    }),
    operate(operations.setBackupStoreDefault, deps),
    operate(operations.createBackupStore, deps),
    operate(operations.updateBackupStore, deps),
    operate(operations.deleteBackupStore, deps),
    route(api.testBackupStore, async ({ params, body: { nodeId } }, context) => {
      const row = await rows.findStore(db.read, params.storeId)
      if (row === undefined) return context.fail('BACKUP_STORE_NOT_FOUND', operations.GONE)
      if (nodeId !== undefined) {
        const node = await db.read.selectFrom('node').select('id').where('id', '=', nodeId).executeTakeFirst()
        if (node === undefined) context.fail('NODE_NOT_FOUND', 'There is no node with this id')
      }
      return testStore(deps, row, { nodeId, signal: context.signal })
    }),
    route(api.askStore, async ({ params, body }, { nodeId }) => {
      if (nodeId === undefined) throw new PanelError('UNAUTHENTICATED', 'This endpoint is for agents of nodes')
      return tickets.ask(nodeId, params.ticket, body)
    }),
  ]
}
