import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { compiled } from '../../../core/cached.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { keptRows } from '../../../db/kept-results.ts'
import { canonicalIp, isUnspecified } from './addresses.ts'
import { type AllocationClaim, type ClaimedAllocation, claimAllocation, NotTogether } from './allocation-claims.ts'
import { oneOfItsAddresses } from './own-addresses.ts'
import { freeAddresses, type PoolSpace, placeIn, withheld } from './pool-space.ts'

/** A place for a server: an address and port of the node, or of one of its networks. */
export interface PlaceClaim extends Omit<AllocationClaim, 'wanted'> {
  readonly wanted:
    | { readonly allocationId: string }
    | { readonly ip: string; readonly port: WantedPort }
    /** In the pool of this network: this address, or the next that is free. */
    | { readonly network: string; readonly ip: string | undefined; readonly port: WantedPort }
}

/** A port, or what finds one at the address that the server gets. */
type WantedPort = number | ((ip: string) => number)

type Pool = PoolSpace & { readonly networkName: string }

/**
 * Gives a server its address and port. An address that a pool gives out belongs to one server, whichever way it is asked
 * for: of many that want it at once one gets it, the others ALLOCATION_IN_USE. A network that the node does not have is
 * ADMIN_IP_POOL_NOT_FOUND, one without a free address INSUFFICIENT_RESOURCES. The row of the server may be written later
 * in the same transaction.
 */
export async function claimPlace(tx: Tx, claim: PlaceClaim): Promise<ClaimedAllocation> {
  const { wanted } = claim
  if (!('network' in wanted)) {
    const allocation = await claimAllocation(tx, { ...claim, wanted: await placed(tx, claim, wanted) })
    const spaces = await keptRows(tx.q, poolsOf(claim.nodeId))
    const pool = spaces.find((one) => placeIn(one, allocation.ip) !== undefined)
    if (pool !== undefined && claim.together !== undefined) throw new NotTogether('a pool gives this address out')
    if (pool !== undefined) await take(tx, { ...claim, pool, ip: allocation.ip })
    return allocation
  }
  if (claim.together !== undefined) throw new NotTogether('a pool gives the address out')
  const pool = await tx.q
    .selectFrom('ipPool')
    .selectAll()
    .where('nodeId', '=', claim.nodeId)
    .where('networkName', '=', wanted.network)
    .executeTakeFirst()
  if (pool === undefined) {
    throw new PanelError('ADMIN_IP_POOL_NOT_FOUND', `The node has no IP pool for the network ${wanted.network}`)
  }
  const ip = wanted.ip ?? (await nextFree(tx, pool))
  await take(tx, { ...claim, pool, ip })
  return claimAllocation(tx, { ...claim, wanted: { ip, port: portAt(wanted.port, ip) } })
}

const poolsOf = compiled((q, nodeId: string) => q.selectFrom('ipPool').selectAll().where('nodeId', '=', nodeId))

/** The network whose pool gives this address out; `undefined`: it is the node's own. */
export async function networkOf(tx: Tx, nodeId: string, ip: string): Promise<string | undefined> {
  const pools = await keptRows(tx.q, poolsOf(nodeId))
  return pools.find((pool) => placeIn(pool, ip) !== undefined)?.networkName
}

/** Frees what a server has: its addresses of pools go back, and its allocations stay for others. */
export async function releasePlace(tx: Tx, serverId: string): Promise<void> {
  const given = await tx.q.deleteFrom('ipPoolAddress').where('serverId', '=', serverId).returning('ip').execute()
  if (given.length > 0) {
    // Allocations that were made for the address go with it, unless somebody has noted something there.
    await tx.q
      .deleteFrom('allocation')
      .where('serverId', '=', serverId)
      .where(
        'ip',
        'in',
        given.map(({ ip }) => ip),
      )
      .where('alias', 'is', null)
      .where('notes', 'is', null)
      .execute()
  }
  await tx.q
    .updateTable('allocation')
    .set({ serverId: null, name: null, role: null, protocol: null, updatedAt: tx.now })
    .where('serverId', '=', serverId)
    .execute()
}

/** Addresses that servers of the node had before the pool gave them out are theirs in the pool as well. */
export async function adopt(tx: Tx, pool: PoolSpace & { readonly nodeId: string }, clock: Clock): Promise<void> {
  const rows = await tx.q
    .selectFrom('allocation')
    .select(['ip', 'serverId'])
    .distinct()
    .where('nodeId', '=', pool.nodeId)
    .where('serverId', 'is not', null)
    .execute()
  const owners = new Map<string, { readonly ip: string; readonly serverId: string }>()
  for (const { ip, serverId } of rows) {
    const position = placeIn(pool, ip)
    if (position === undefined || serverId === null) continue
    if (owners.has(position)) throw fieldError('body.reserved', `must contain ${ip}, which several servers share`)
    owners.set(position, { ip, serverId })
  }
  for (const [position, { ip, serverId }] of owners) {
    await tx.q
      .insertInto('ipPoolAddress')
      .values({ id: newId('ipa', clock), poolId: pool.id, serverId, ip, position, createdAt: tx.now })
      .onConflict((conflict) => conflict.columns(['poolId', 'position']).doNothing())
      .execute()
  }
}

/** The lowest address that a server has although the pool, as it now is, would not give it out. */
export async function strandedIn(tx: Tx, pool: PoolSpace): Promise<string | undefined> {
  const closed = [...withheld(pool)]
  const row = await tx.q
    .selectFrom('ipPoolAddress')
    .select('ip')
    .where('poolId', '=', pool.id)
    .where((eb) =>
      eb.or([
        eb('position', '<', pool.rangeFirst),
        eb('position', '>', pool.rangeLast),
        ...(closed.length === 0 ? [] : [eb('position', 'in', closed)]),
      ]),
    )
    .orderBy('position')
    .executeTakeFirst()
  return row?.ip
}

async function placed(
  tx: Tx,
  { nodeId }: PlaceClaim,
  wanted: Exclude<PlaceClaim['wanted'], { readonly network: string }>,
): Promise<AllocationClaim['wanted']> {
  if ('allocationId' in wanted) return wanted
  if (typeof wanted.port === 'number') return { ip: wanted.ip, port: wanted.port }
  const ip = canonicalIp(wanted.ip)
  if (ip === undefined || isUnspecified(ip)) throw fieldError('body.primaryIp', await oneOfItsAddresses(tx.q, nodeId))
  return { ip, port: wanted.port(ip) }
}

function portAt(port: WantedPort, ip: string): number {
  return typeof port === 'number' ? port : port(canonicalIp(ip) ?? ip)
}

async function nextFree(tx: Tx, pool: Pool): Promise<string> {
  const [ip] = await freeAddresses(tx.q, pool, 1)
  if (ip !== undefined) return ip
  throw new PanelError('INSUFFICIENT_RESOURCES', `The network ${pool.networkName} has no free address`, {
    meta: { available: { addresses: 0 }, required: { addresses: 1 } },
  })
}

async function take(
  tx: Tx,
  { pool, ip, serverId, clock }: Pick<PlaceClaim, 'serverId' | 'clock'> & { readonly pool: Pool; readonly ip: string },
): Promise<void> {
  const position = placeIn(pool, ip)
  if (position === undefined) throw fieldError('body.primaryIp', `is no address that ${pool.networkName} gives out`)
  const row = {
    id: newId('ipa', clock),
    poolId: pool.id,
    serverId,
    ip: canonicalIp(ip) ?? ip,
    position,
    createdAt: tx.now,
  }
  await tx.q
    .insertInto('ipPoolAddress')
    .values(row)
    .execute()
    .catch((error: unknown) => {
      if (uniqueViolation(error) === undefined) throw error
      throw new PanelError('ALLOCATION_IN_USE', `${ip} of the network ${pool.networkName} belongs to another server`)
    })
}
