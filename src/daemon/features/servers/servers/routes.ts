import { listAdminServers } from '../../../../shared/api/admin-servers.ts'
import { getServer, getServerStats, listServers, patchServer, updateServer } from '../../../../shared/api/servers.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Holder, visibleServers } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import type { Queries } from '../../../db/db.ts'
import { prepareJson } from '../../../http/answer-json.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, holderOf, type Route, route } from '../../../http/route.ts'
import { bulkRoutes } from './bulk-routes.ts'
import { editDesk } from './edit-together.ts'
import { lifeRoutes } from './life-routes.ts'
import * as operations from './operations.ts'
import { orderRoutes } from './order-routes.ts'
import { refuseSuspended } from './orders.ts'
import { orphanRoutes } from './orphan-routes.ts'
import { portRoutes } from './port-routes.ts'
import { findServerRow, listServerRows, ownersOf, prepareServerRow, type ServerRow } from './rows.ts'
import { type Included, liveFacts, statusOf, toListed, toServer, usageOf, type Viewer, viewerOf } from './view.ts'

/** Servers: list, create, show, edit, delete, suspend, orders, usage. */
export function serverRoutes(deps: operations.ServerDeps): Route[] {
  const { db, facts } = deps
  const edit = editDesk(deps)
  return [
    cachedRoute(listServers, async ({ query }, context) => {
      const { at } = context
      const holder = holderOf(context)
      const seen = liveFacts(facts, context)
      const { rows, total } = await listServerRows(at.q, await visibleServers(at, holder), query)
      const viewer = await listViewerOf(at, holder, { rows, include: query.include })
      return { items: rows.map((row) => toListed(row, viewer, { facts: seen, include: query.include })), total }
    }),
    cachedRoute(listAdminServers, async ({ query }, context) => {
      const { at } = context
      const { rows, total } = await listServerRows(at.q, 'all', { ...query, nodesToo: true })
      const { include } = query
      const viewer = await listViewerOf(at, holderOf(context), { rows, include })
      const owners = await ownersOf(at.q, rows)
      const seen = liveFacts(facts, context)
      const items = rows.map((row) =>
        Object.assign(toListed(row, viewer, { facts: seen, include }), { owner: owners.get(row.ownerId) ?? null }),
      )
      return { items, total }
    }),
    cachedRoute(getServer, async ({ params }, context) => {
      const row = await present(context.at.q, params.serverId)
      return toServer(row, await viewerOf(context.at, holderOf(context), [row]), liveFacts(facts, context))
    }),
    route(updateServer, (input, { principal }) => edit({ operation: operations.updateServer, principal, input })),
    route(patchServer, (input, { principal }) => edit({ operation: operations.patchServer, principal, input })),
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

/** Makes ready what the first view of a server would wait for: it takes some ten milliseconds, and all who come with a start would wait. */
export function prepareServerView(): void {
  prepareJson(getServer.response)
  prepareServerRow()
}

/** What the caller may do is looked up only where it is shown. */
async function listViewerOf(
  at: At,
  caller: Holder,
  { rows, include }: { rows: readonly ServerRow[]; include: Included },
): Promise<Viewer> {
  return viewerOf(at, caller, include?.includes('effectivePermissions') === true ? rows : [])
}

async function present(q: Queries, id: string): Promise<ServerRow> {
  const row = await findServerRow(q, id)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  return row
}
