import { listAdminServers } from '../../../../shared/api/admin-servers.ts'
import { getServer, getServerStats, listServers } from '../../../../shared/api/servers.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { visibleServers } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { Queries } from '../../../db/db.ts'
import { operate } from '../../../http/operate.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { bulkRoutes } from './bulk-routes.ts'
import { lifeRoutes } from './life-routes.ts'
import * as operations from './operations.ts'
import { orderRoutes } from './order-routes.ts'
import { refuseSuspended } from './orders.ts'
import { orphanRoutes } from './orphan-routes.ts'
import { portRoutes } from './port-routes.ts'
import { findServerRow, listServerRows, ownersOf, type ServerRow } from './rows.ts'
import { statusOf, toServer, usageOf, viewerOf } from './view.ts'

/** Servers: list, create, show, edit, delete, suspend, orders, usage. */
export function serverRoutes(deps: operations.ServerDeps): Route[] {
  const { db, facts } = deps
  const here = (): At => ({ q: db.read, now: now(deps.clock) })
  return [
    route(listServers, async ({ query }, context) => {
      const caller = callerOf(context)
      const at = here()
      const { rows, total } = await listServerRows(db.read, await visibleServers(at, caller), query)
      const viewer = await viewerOf(at, caller, rows)
      return { items: rows.map((row) => toServer(row, viewer, facts)), total }
    }),
    route(listAdminServers, async ({ query }, context) => {
      const { rows, total } = await listServerRows(db.read, 'all', { ...query, nodesToo: true })
      const viewer = await viewerOf(here(), callerOf(context), rows)
      const owners = await ownersOf(db.read, rows)
      const items = rows.map((row) => ({ ...toServer(row, viewer, facts), owner: owners.get(row.ownerId) ?? null }))
      return { items, total }
    }),
    route(getServer, async ({ params }, context) => {
      const row = await present(db.read, params.serverId)
      return toServer(row, await viewerOf(here(), callerOf(context), [row]), facts)
    }),
    operate(operations.updateServer, deps),
    operate(operations.patchServer, deps),
    operate(operations.resizeStorage, deps),
    operate(operations.deleteServer, deps),
    route(getServerStats, async ({ params }) => {
      const row = facts.observed(await present(db.read, params.serverId))
      refuseSuspended(row)
      const { timestamp, ...usage } = usageOf(row, facts)
      return {
        ...usage,
        memoryAllocatedMb: row.memoryMb,
        memoryPercentage:
          usage.memoryUsageMb === null ? null : Math.round((usage.memoryUsageMb / row.memoryMb) * 1000) / 10,
        timestamp,
        server: { id: row.id, name: row.name, status: statusOf(row) },
      }
    }),
    operate(operations.pinServer, deps),
    operate(operations.unpinServer, deps),
    operate(operations.suspendServer, deps),
    operate(operations.unsuspendServer, deps),
    ...orderRoutes(deps),
    ...lifeRoutes(deps),
    ...orphanRoutes(deps),
    ...portRoutes(deps),
    ...bulkRoutes(deps),
  ]
}

async function present(q: Queries, id: string): Promise<ServerRow> {
  const row = await findServerRow(q, id)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  return row
}
