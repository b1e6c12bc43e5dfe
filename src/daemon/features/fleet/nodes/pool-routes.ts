import * as api from '../../../../shared/api/ip-pools.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import type { NodeDeps } from './deps.ts'
import { GONE as NO_NODE } from './operations.ts'
import * as operations from './pool-operations.ts'
import * as pools from './pool-rows.ts'
import { freeAddresses } from './pool-space.ts'
import { findNode } from './rows.ts'

/** The routes of IP pools, and what the users of a node see of them. */
export function poolRoutes(deps: NodeDeps): Route[] {
  return [
    list(deps),
    get(deps),
    addresses(deps),
    operate(operations.createIpPool, deps),
    operate(operations.updateIpPool, deps),
    operate(operations.deleteIpPool, deps),
    ofNode(deps),
    free(deps),
  ]
}

function list({ db }: NodeDeps): Route {
  return route(api.listIpPools, async ({ query }) => {
    const { items, total } = await pools.listPools(db.read, query)
    const views = []
    for (const row of items) views.push(await pools.poolView(db.read, row))
    return { items: views, total }
  })
}

function get({ db }: NodeDeps): Route {
  return route(api.getIpPool, async ({ params }, context) => {
    const row =
      (await pools.findPool(db.read, params.poolId)) ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', operations.GONE)
    return pools.poolView(db.read, row)
  })
}

function addresses({ db }: NodeDeps): Route {
  return route(api.listPoolAddresses, async ({ params, query }, context) => {
    const row =
      (await pools.findPool(db.read, params.poolId)) ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', operations.GONE)
    return pools.listAddresses(db.read, row.id, query)
  })
}

function ofNode({ db }: NodeDeps): Route {
  return route(api.listNodePools, async ({ params: { nodeId }, query }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', NO_NODE)
    const { items, total } = await pools.listPools(db.read, { ...query, nodeId })
    return {
      items: items.map((row) => {
        const { id, networkName, cidr } = row
        return { id, networkName, cidr, availableCount: pools.availableIn(row) }
      }),
      total,
    }
  })
}

function free({ db }: NodeDeps): Route {
  return route(api.listFreeAddresses, async ({ params: { nodeId }, query }, context) => {
    if ((await findNode(db.read, nodeId)) === undefined) context.fail('NODE_NOT_FOUND', NO_NODE)
    const { networkName, limit } = query
    const every = await pools.poolsOfNode(db.read, nodeId)
    const asked = networkName === undefined ? every : every.filter((pool) => pool.networkName === networkName)
    if (networkName !== undefined && asked.length === 0) {
      context.fail('ADMIN_IP_POOL_NOT_FOUND', `The node has no IP pool for the network ${networkName}`)
    }
    const found: string[] = []
    for (const pool of asked) found.push(...(await freeAddresses(db.read, pool, limit - found.length)))
    return found
  })
}
