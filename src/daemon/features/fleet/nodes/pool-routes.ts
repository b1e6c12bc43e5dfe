import * as api from '../../../../shared/api/ip-pools.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { isForeignKeyViolation, type Queries, uniqueViolation } from '../../../db/db.ts'
import { type Route, route } from '../../../http/route.ts'
import type { NodeDeps } from './deps.ts'
import { adopt, strandedIn } from './pool-claims.ts'
import { type PoolFields, type PoolPlan, planOf } from './pool-plan.ts'
import * as pools from './pool-repo.ts'
import { freeAddresses, reservedOf } from './pool-space.ts'
import { findNode } from './repo.ts'

const GONE = 'There is no IP pool with this id'
const NO_NODE = 'There is no node with this id'

/** The routes of IP pools, and what the users of a node see of them. */
export function poolRoutes(deps: NodeDeps): Route[] {
  return [list(deps), get(deps), addresses(deps), create(deps), update(deps), remove(deps), ofNode(deps), free(deps)]
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
    const row = (await pools.findPool(db.read, params.poolId)) ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', GONE)
    return pools.poolView(db.read, row)
  })
}

function addresses({ db }: NodeDeps): Route {
  return route(api.listPoolAddresses, async ({ params, query }, context) => {
    const row = (await pools.findPool(db.read, params.poolId)) ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', GONE)
    return pools.listAddresses(db.read, row.id, query)
  })
}

function create({ db, bus, audit, clock }: NodeDeps): Route {
  return route(api.createIpPool, ({ body }, context) => {
    const { nodeId, networkName } = body
    const plan = planOf(fieldsOf(body, { cidr: body.cidr, gateway: null, startIp: null, endIp: null, reserved: [] }))
    return db.write(async (tx) => {
      const id = newId('ipp', clock)
      const row = { id, nodeId, networkName, ...columnsOf(plan) }
      await pools.insertPool(tx.q, { ...row, createdAt: tx.now, updatedAt: tx.now }).catch((error: unknown) => {
        if (isForeignKeyViolation(error)) return context.fail('NODE_NOT_FOUND', NO_NODE)
        if (uniqueViolation(error) === undefined) throw error
        return context.fail('ADMIN_IP_POOL_OVERLAP', `The node has a pool for the network ${networkName} already`)
      })
      await refuseOverlap(tx.q, row, (message) => context.fail('ADMIN_IP_POOL_OVERLAP', message))
      await adopt(tx, row, clock)
      await audit.record(tx, context.actor, {
        action: 'ip_pool.create',
        resource: 'ip_pool',
        resourceId: id,
        details: { nodeId, networkName, ...toldOf(plan) },
      })
      const createdBy = context.caller?.userId ?? null
      await bus.append(tx, { type: 'ip_pool_created', data: { poolId: id, nodeId, createdBy } })
      return pools.poolView(tx.q, (await pools.findPool(tx.q, id)) ?? missing(id))
    })
  })
}

function update({ db, bus, audit, clock }: NodeDeps): Route {
  return route(api.updateIpPool, ({ params: { poolId }, body }, context) =>
    db.write(async (tx) => {
      const before = (await pools.findPool(tx.q, poolId)) ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', GONE)
      const known = toldOf({ ...before, reserved: reservedOf(before) })
      const plan = planOf(fieldsOf(body, known))
      const details = changes({ ...known }, { ...toldOf(plan) })
      if (details === undefined) return pools.poolView(tx.q, before)
      await pools.updatePool(tx.q, poolId, { ...columnsOf(plan), updatedAt: tx.now })
      const row = { id: poolId, nodeId: before.nodeId, ...columnsOf(plan) }
      await refuseOverlap(tx.q, row, (message) => context.fail('ADMIN_IP_POOL_OVERLAP', message))
      const stranded = await strandedIn(tx, row)
      if (stranded !== undefined) {
        throw fieldError(strandingField(stranded, plan, body), `leaves out ${stranded}, which a server has`)
      }
      await adopt(tx, row, clock)
      await audit.record(tx, context.actor, {
        action: 'ip_pool.update',
        resource: 'ip_pool',
        resourceId: poolId,
        details,
      })
      const updatedBy = context.caller?.userId ?? null
      await bus.append(tx, { type: 'ip_pool_updated', data: { poolId, nodeId: before.nodeId, updatedBy } })
      return pools.poolView(tx.q, (await pools.findPool(tx.q, poolId)) ?? missing(poolId))
    }),
  )
}

function remove({ db, bus, audit }: NodeDeps): Route {
  return route(api.deleteIpPool, ({ params: { poolId } }, context) =>
    db.write(async (tx) => {
      const deleted = await pools.deletePool(tx.q, poolId).catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        return context.fail('ADMIN_IP_POOL_IN_USE', 'Servers have addresses of this pool; move or delete them first')
      })
      const { nodeId, networkName, cidr } = deleted ?? context.fail('ADMIN_IP_POOL_NOT_FOUND', GONE)
      await audit.record(tx, context.actor, {
        action: 'ip_pool.delete',
        resource: 'ip_pool',
        resourceId: poolId,
        details: { nodeId, networkName, cidr },
      })
      const deletedBy = context.caller?.userId ?? null
      await bus.append(tx, { type: 'ip_pool_deleted', data: { poolId, nodeId, deletedBy } })
      return null
    }),
  )
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

type Given = { readonly [K in keyof PoolFields]?: PoolFields[K] | undefined }

/** What is wanted: the fields that are given, for the rest those that are known. */
function fieldsOf(given: Given, known: PoolFields): PoolFields {
  const or = <T>(value: T | undefined, other: T): T => (value === undefined ? other : value)
  return {
    cidr: or(given.cidr, known.cidr),
    gateway: or(given.gateway, known.gateway),
    startIp: or(given.startIp, known.startIp),
    endIp: or(given.endIp, known.endIp),
    reserved: or(given.reserved, known.reserved),
  }
}

function toldOf({ cidr, gateway, startIp, endIp, reserved }: PoolFields): PoolFields {
  return { cidr, gateway, startIp, endIp, reserved }
}

function columnsOf(plan: PoolPlan) {
  return { ...plan, reserved: JSON.stringify(plan.reserved) }
}

/** Writes come one after the other, so that no pool can come in between this look and the commit. */
async function refuseOverlap(
  q: Queries,
  row: Parameters<typeof pools.findOverlap>[1] & { readonly cidr: string },
  refuse: (message: string) => never,
): Promise<void> {
  const other = await pools.findOverlap(q, row)
  if (other !== undefined) refuse(`${row.cidr} overlaps ${other.cidr} of the network ${other.networkName} on this node`)
}

function strandingField(ip: string, plan: PoolPlan, given: Given): string {
  if (plan.reserved.includes(ip)) return 'body.reserved'
  if (plan.gateway === ip) return 'body.gateway'
  const field = (['cidr', 'startIp', 'endIp'] as const).find((name) => given[name] !== undefined)
  return `body.${field ?? 'cidr'}`
}

function missing(id: string): never {
  throw new Error(`IP pool ${id} is gone within the transaction that wrote it`)
}
