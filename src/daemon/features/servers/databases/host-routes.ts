import { getDatabaseHost, listDatabaseHosts, pingDatabaseHost } from '../../../../shared/api/database-hosts.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { HostDeps } from './host-operations.ts'
import * as operations from './host-operations.ts'
import * as rows from './host-rows.ts'
import { pingHost } from './ping.ts'

/** The routes of database hosts. */
export function databaseHostRoutes(deps: HostDeps): Route[] {
  const { db } = deps
  return [
    route(listDatabaseHosts, ({ query }) => rows.listHosts(db.read, query)),
    route(
      getDatabaseHost,
      async ({ params }, context) =>
        (await rows.findHost(db.read, params.hostId)) ?? context.fail('ADMIN_DATABASE_HOST_NOT_FOUND', operations.GONE),
    ),
    operate(operations.createDatabaseHost, deps),
    operate(operations.updateDatabaseHost, deps),
    operate(operations.deleteDatabaseHost, deps),
    route(pingDatabaseHost, async ({ params }, context) => {
      const row = await rows.findHostRow(db.read, params.hostId)
      return pingHost(deps, row ?? context.fail('ADMIN_DATABASE_HOST_NOT_FOUND', operations.GONE), context.signal)
    }),
  ]
}
