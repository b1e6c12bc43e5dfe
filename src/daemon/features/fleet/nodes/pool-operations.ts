import * as api from '../../../../shared/api/ip-pools.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { type OperationDeps, operationsOver } from '../../../access/operation.ts'
import { isForeignKeyViolation, type Queries, uniqueViolation } from '../../../db/db.ts'
import { GONE as NO_NODE } from './operations.ts'
import { adopt, strandedIn } from './pool-claims.ts'
import { type PoolFields, type PoolPlan, planOf } from './pool-plan.ts'
import * as pools from './pool-rows.ts'
import { reservedOf } from './pool-space.ts'

/** What the operations of IP pools need. */
export interface PoolOperationDeps extends OperationDeps {
  readonly clock: Clock
}

export const GONE = 'There is no IP pool with this id'

const operation = operationsOver<PoolOperationDeps>()

export const createIpPool = operation(api.createIpPool, async ({ tx, deps, userId, fail }, { body }) => {
  const { clock } = deps
  const { nodeId, networkName } = body
  const plan = planOf(fieldsOf(body, { cidr: body.cidr, gateway: null, startIp: null, endIp: null, reserved: [] }))

  const id = newId('ipp', clock)
  const row = { id, nodeId, networkName, ...columnsOf(plan) }
  await pools.insertPool(tx.q, { ...row, createdAt: tx.now, updatedAt: tx.now }).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return fail('NODE_NOT_FOUND', NO_NODE)
    if (uniqueViolation(error) === undefined) throw error
    return fail('ADMIN_IP_POOL_OVERLAP', `The node has a pool for the network ${networkName} already`)
  })
  await refuseOverlap(tx.q, row, (message) => fail('ADMIN_IP_POOL_OVERLAP', message))
  await adopt(tx, row, clock)

  return {
    answer: await pools.poolView(tx.q, (await pools.findPool(tx.q, id)) ?? missing(id)),
    audit: {
      resourceId: id,
      details: { nodeId, networkName, ...fieldsShown(plan) },
    },
    events: [{ type: 'ip_pool_created', data: { poolId: id, nodeId, createdBy: userId } }],
  }
})

export const updateIpPool = operation(
  api.updateIpPool,
  async ({ tx, deps, userId, fail }, { params: { poolId }, body }) => {
    const { clock } = deps
    const before = (await pools.findPool(tx.q, poolId)) ?? fail('ADMIN_IP_POOL_NOT_FOUND', GONE)
    const known = fieldsShown({ ...before, reserved: reservedOf(before) })
    const plan = planOf(fieldsOf(body, known))
    const details = changes({ ...known }, { ...fieldsShown(plan) })
    if (details === undefined) return { answer: await pools.poolView(tx.q, before) }
    await pools.updatePool(tx.q, poolId, { ...columnsOf(plan), updatedAt: tx.now })
    const row = { id: poolId, nodeId: before.nodeId, ...columnsOf(plan) }
    await refuseOverlap(tx.q, row, (message) => fail('ADMIN_IP_POOL_OVERLAP', message))
    const stranded = await strandedIn(tx, row)
    if (stranded !== undefined) {
      throw fieldError(strandingField(stranded, plan, body), `leaves out ${stranded}, which a server has`)
    }
    await adopt(tx, row, clock)

    return {
      answer: await pools.poolView(tx.q, (await pools.findPool(tx.q, poolId)) ?? missing(poolId)),
      audit: {
        resourceId: poolId,
        details,
      },
      events: [{ type: 'ip_pool_updated', data: { poolId, nodeId: before.nodeId, updatedBy: userId } }],
    }
  },
)

export const deleteIpPool = operation(api.deleteIpPool, async ({ tx, userId, fail }, { params: { poolId } }) => {
  const deleted = await pools.deletePool(tx.q, poolId).catch((error: unknown) => {
    if (!isForeignKeyViolation(error)) throw error
    return fail('ADMIN_IP_POOL_IN_USE', 'Servers have addresses of this pool; move or delete them first')
  })
  const { nodeId, networkName, cidr } = deleted ?? fail('ADMIN_IP_POOL_NOT_FOUND', GONE)

  return {
    answer: null,
    audit: {
      resourceId: poolId,
      details: { nodeId, networkName, cidr },
    },
    events: [{ type: 'ip_pool_deleted', data: { poolId, nodeId, deletedBy: userId } }],
  }
})

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

function fieldsShown({ cidr, gateway, startIp, endIp, reserved }: PoolFields): PoolFields {
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
