import {
  createServerDatabase,
  deleteServerDatabase,
  getServerDatabase,
  listServerDatabases,
  rotateServerDatabase,
  type ServerDatabase,
} from '../../../../shared/api/databases.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import { serverPermissions } from '../../../access/permit.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow } from '../servers/rows.ts'
import { removeDatabase, rotatePassword } from './change.ts'
import { createDatabase } from './create.ts'
import { findShown, listShown } from './database-rows.ts'
import type { DatabaseWork } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import { adoptServerDatabase } from './operations.ts'
import { toDatabase } from './view.ts'

/** The routes of the databases of servers. */
export function databaseRoutes(deps: DatabaseDeps & { readonly work: DatabaseWork }): Route[] {
  const { db, clock } = deps
  const visible = async (serverId: string): Promise<void> => {
    const server = await findServerRow(db.read, serverId)
    if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    refuseSuspended(server)
  }
  const found = async (serverId: string, id: string, withPassword: boolean): Promise<ServerDatabase> => {
    const row = await findShown(db.read, serverId, id)
    if (row === undefined) throw new PanelError('DATABASE_NOT_FOUND', 'This server has no such database')
    return toDatabase(deps, row, withPassword)
  }
  /** What a change answers: the password only to those who may read it. */
  const changed = async (serverId: string, id: string, caller: Caller): Promise<ServerDatabase> => {
    const held = await serverPermissions({ q: db.read, now: now(clock) }, caller, serverId, ['database.read'])
    return found(serverId, id, held.length > 0)
  }
  return [
    route(listServerDatabases, async ({ params, query }) => {
      await visible(params.serverId)
      const { rows, total } = await listShown(db.read, params.serverId, query)
      return { items: rows.map((row) => toDatabase(deps, row, true)), total }
    }),
    route(getServerDatabase, async ({ params }) => {
      await visible(params.serverId)
      return found(params.serverId, params.databaseId, true)
    }),
    route(createServerDatabase, async ({ params: { serverId }, body }, context) => {
      const id = await createDatabase(deps, { serverId, body, principal: context.principal })
      return changed(serverId, id, callerOf(context))
    }),
    route(rotateServerDatabase, async ({ params, body }, context) => {
      await rotatePassword(deps, { ...params, force: body.force, principal: context.principal })
      return changed(params.serverId, params.databaseId, callerOf(context))
    }),
    route(deleteServerDatabase, async ({ params, query }, context) => {
      // What its own panel may still use is not for the members of one server to remove.
      if (query.drop === true && !grants(callerOf(context).permissions, 'admin.write')) {
        return context.fail(
          'PERMISSION_DENIED',
          'To drop a database that the panel does not manage takes admin.write',
          {
            requiredPermissions: ['admin.write'],
          },
        )
      }
      return removeDatabase(deps, { ...params, drop: query.drop, principal: context.principal })
    }),
    operate(adoptServerDatabase, deps),
  ]
}
