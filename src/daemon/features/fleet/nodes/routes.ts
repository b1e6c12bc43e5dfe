import { listAccessibleNodes } from '../../../../shared/api/assignments.ts'
import { getNode, getNodeStats, listAdminNodes, listNodes } from '../../../../shared/api/nodes.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { visibleNodes } from '../../../access/permit.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, callerOf, type Route, route } from '../../../http/route.ts'
import { allocationRoutes } from './allocation-routes.ts'
import { credentialRoutes } from './credential-routes.ts'
import type { NodeDeps } from './deps.ts'
import * as operations from './operations.ts'
import { poolRoutes } from './pool-routes.ts'
import * as rows from './rows.ts'
import { nodeStats } from './stats.ts'
import { nodeView } from './view.ts'

/** The routes of nodes, their credentials, allocations and IP pools. */
export function nodeRoutes(deps: NodeDeps): Route[] {
  return [
    list(deps),
    listForAdmin(deps),
    listAccessible(deps),
    get(deps),
    operate(operations.createNode, deps),
    operate(operations.updateNode, deps),
    operate(operations.setNodeMaintenance, deps),
    operate(operations.deleteNode, deps),
    stats(deps),
    ...credentialRoutes(deps),
    ...allocationRoutes(deps),
    ...poolRoutes(deps),
  ]
}

function list(deps: NodeDeps): Route {
  return cachedRoute(listNodes, async ({ query }, { at, live }) => {
    const { items, total } = await rows.listNodes(at.q, query)
    return { items: items.map((row) => nodeView(row, deps, live)), total }
  })
}

function listForAdmin(deps: NodeDeps): Route {
  return cachedRoute(listAdminNodes, async ({ query }, { at, live }) => {
    const { items, total } = await rows.listNodes(at.q, query)
    const usageOf = await rows.nodeUsage(
      at.q,
      items.map(({ id }) => id),
    )
    const withUsage = items.map((row) => {
      const { memoryMb, cpuCores, running } = usageOf(row.id)
      const given = { allocatedMemoryMb: memoryMb, allocatedCpuCores: cpuCores, runningServers: running }
      return { ...nodeView(row, deps, live), ...given }
    })
    return { items: withUsage, total }
  })
}

function listAccessible(deps: NodeDeps): Route {
  return route(listAccessibleNodes, async ({ query }, context) => {
    const at = { q: deps.db.read, now: now(deps.clock) }
    const visibility = await visibleNodes(at, callerOf(context))
    const { items, total } = await rows.listNodes(deps.db.read, { ...query, visibility })
    return { items: items.map((row) => nodeView(row, deps)), total }
  })
}

function get(deps: NodeDeps): Route {
  return cachedRoute(getNode, async ({ params }, context) => {
    const { at, live } = context
    const row = (await rows.findNode(at.q, params.nodeId)) ?? context.fail('NODE_NOT_FOUND', operations.GONE)
    return { ...nodeView(row, deps, live), servers: await rows.serversOfNode(at.q, row.id) }
  })
}

function stats({ db, isOnline, health }: NodeDeps): Route {
  return route(getNodeStats, async ({ params }, context) => {
    const row = (await rows.findNode(db.read, params.nodeId)) ?? context.fail('NODE_NOT_FOUND', operations.GONE)
    const usageOf = await rows.nodeUsage(db.read, [row.id])
    return nodeStats(row, { usage: usageOf(row.id), isOnline: isOnline(row.id), report: health(row.id) })
  })
}
