import * as api from '../../../../shared/api/databases.ts'
import { operationsOver } from '../../../access/operation.ts'
import { serverPermissions } from '../../../access/permit.ts'
import { findServerRow } from '../servers/rows.ts'
import { findShown } from './database-rows.ts'
import type { DatabaseDeps } from './deps.ts'
import { toDatabase } from './view.ts'

const operation = operationsOver<DatabaseDeps>()

/** What the host holds is not touched: from here on it is deleted there with its row. */
export const adoptServerDatabase = operation(
  api.adoptServerDatabase,
  async ({ tx, deps, userId, holder, fail }, { params: { serverId, databaseId } }) => {
    if ((await findServerRow(tx.q, serverId)) === undefined) fail('SERVER_NOT_FOUND', 'There is no such server')
    const row =
      (await findShown(tx.q, serverId, databaseId)) ?? fail('DATABASE_NOT_FOUND', 'This server has no such database')
    const readers = await serverPermissions({ q: tx.q, now: tx.now }, holder, serverId, ['database.read'])
    const answer = toDatabase(deps, { ...row, managed: 1 }, readers.length > 0)
    if (row.managed === 1) return { answer }
    const own = tx.q.updateTable('serverDatabase').set({ managed: 1, updatedAt: tx.now })
    await own.where('id', '=', databaseId).execute()
    const { name, hostId, hostName } = row
    const data = { databaseId, databaseName: name, adoptedBy: userId }
    return {
      answer,
      audit: { resourceId: databaseId, details: { serverId, name, hostId, hostName } },
      events: [{ type: 'database_adopted', serverId, data }],
    }
  },
)
