import type { Insertable, Updateable } from 'kysely'
import type { z } from 'zod'
import { type IpPool, type PoolAddress, SHOWN_ADDRESSES } from '../../../../shared/api/ip-pools.ts'
import { serverStatus } from '../../../../shared/kernel/server-life.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'
import { formatIp, fromIpKey } from './ip-numbers.ts'
import { reservedOf, sizeOf, withheld } from './pool-space.ts'

/** A pool with the name of its node and the number of addresses that servers have. */
export type PoolRow = Awaited<ReturnType<ReturnType<typeof selectPools>['executeTakeFirstOrThrow']>>

interface PoolQuery {
  readonly nodeId?: string | undefined
  readonly search?: string | undefined
  readonly page: number
  readonly limit: number
}

/** One page of pools by node and network, with the number of all that match. */
export async function listPools(q: Queries, query: PoolQuery): Promise<{ items: PoolRow[]; total: number }> {
  let matching = selectPools(q)
  if (query.nodeId !== undefined) matching = matching.where('ipPool.nodeId', '=', query.nodeId)
  if (query.search !== undefined) {
    matching = matching.where(textMatches(query.search, 'ipPool.id', ['ipPool.networkName', 'ipPool.cidr']))
  }
  const items = await matching
    .orderBy('node.name')
    .orderBy('ipPool.networkName')
    .orderBy('ipPool.id')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { items, total: await totalOf(q, matching, { query, found: items.length }) }
}

/** The pool with this id. */
export async function findPool(q: Queries, id: string): Promise<PoolRow | undefined> {
  return selectPools(q).where('ipPool.id', '=', id).executeTakeFirst()
}

/** All pools of a node by network. */
export async function poolsOfNode(q: Queries, nodeId: string): Promise<PoolRow[]> {
  return selectPools(q).where('ipPool.nodeId', '=', nodeId).orderBy('ipPool.networkName').execute()
}

/** A pool of the node, other than `id`, whose network has an address in common with these bounds. */
export async function findOverlap(
  q: Queries,
  bounds: Pick<PoolRow, 'id' | 'nodeId' | 'family' | 'networkFirst' | 'networkLast'>,
): Promise<{ networkName: string; cidr: string } | undefined> {
  return q
    .selectFrom('ipPool')
    .select(['networkName', 'cidr'])
    .where('nodeId', '=', bounds.nodeId)
    .where('family', '=', bounds.family)
    .where('networkFirst', '<=', bounds.networkLast)
    .where('networkLast', '>=', bounds.networkFirst)
    .where('id', '!=', bounds.id)
    .orderBy('networkFirst')
    .executeTakeFirst()
}

/** Fails with the database's UNIQUE violation for a taken network, FOREIGN KEY violation for an unknown node. */
export async function insertPool(q: Queries, row: Insertable<Schema['ipPool']>): Promise<void> {
  await q.insertInto('ipPool').values(row).execute()
}

export async function updatePool(q: Queries, id: string, fields: Updateable<Schema['ipPool']>): Promise<void> {
  await q.updateTable('ipPool').set(fields).where('id', '=', id).execute()
}

/** Fails with the database's FOREIGN KEY violation while a server has an address of it. */
export async function deletePool(
  q: Queries,
  id: string,
): Promise<Pick<PoolRow, 'nodeId' | 'networkName' | 'cidr'> | undefined> {
  return q.deleteFrom('ipPool').where('id', '=', id).returning(['nodeId', 'networkName', 'cidr']).executeTakeFirst()
}

/** One page of the addresses of a pool that servers have, lowest first. */
export async function listAddresses(
  q: Queries,
  poolId: string,
  query: { readonly page: number; readonly limit: number },
): Promise<{ items: z.input<typeof PoolAddress>[]; total: number }> {
  const matching = q.selectFrom('ipPoolAddress').where('ipPoolAddress.poolId', '=', poolId)
  const page = matching.select('id').orderBy('position').limit(query.limit).offset(offsetOf(query))
  const rows = await q
    .selectFrom('ipPoolAddress')
    .innerJoin('server', 'server.id', 'ipPoolAddress.serverId')
    .where('ipPoolAddress.id', 'in', page)
    .select(['ipPoolAddress.id', 'ipPoolAddress.ip', 'ipPoolAddress.serverId', 'ipPoolAddress.createdAt'])
    .select(['server.name', 'server.deletingAt', 'server.archivedAt', 'server.suspendedAt', 'server.activity'])
    .select(['server.power', 'server.crashed', 'server.failed'])
    .orderBy('ipPoolAddress.position')
    .execute()
  const items = rows.map(({ id, ip, serverId, createdAt, name, ...life }) => ({
    id,
    ip,
    serverId,
    serverName: name,
    serverStatus: serverStatus({ ...life, crashed: life.crashed === 1, failed: life.failed === 1 }),
    createdAt,
  }))
  return { items, total: await totalOf(q, matching, { query, found: items.length }) }
}

/** The pool of the API. */
export async function poolView(q: Queries, row: PoolRow): Promise<z.input<typeof IpPool>> {
  const used = Number(row.usedCount)
  const shown = used === 0 ? [] : (await listAddresses(q, row.id, { page: 1, limit: SHOWN_ADDRESSES })).items
  const text = (key: string): string => formatIp({ bits: row.family === 4 ? 32 : 128, value: fromIpKey(key) })
  const { id, nodeId, nodeName, networkName, cidr, gateway, startIp, endIp, createdAt, updatedAt } = row
  return {
    id, nodeId, nodeName, networkName, cidr, gateway, startIp, endIp,
    reserved: reservedOf(row),
    rangeStart: text(row.rangeFirst),
    rangeEnd: text(row.rangeLast),
    total: exact(sizeOf(row)),
    reservedCount: withheld(row).size,
    usedCount: used,
    availableCount: availableIn(row),
    createdAt, updatedAt,
    allocations: shown,
  } // biome-ignore format: columns
}

/** How many addresses of the pool are free. */
export function availableIn(row: PoolRow): number | string {
  return exact(sizeOf(row) - BigInt(withheld(row).size) - BigInt(Number(row.usedCount)))
}

/** JSON has no whole numbers beyond 2^53: those are written as text. */
function exact(count: bigint): number | string {
  return count <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(count) : String(count)
}

function selectPools(q: Queries) {
  return q
    .selectFrom('ipPool')
    .innerJoin('node', 'node.id', 'ipPool.nodeId')
    .selectAll('ipPool')
    .select('node.name as nodeName')
    .select((eb) =>
      eb
        .selectFrom('ipPoolAddress')
        .whereRef('ipPoolAddress.poolId', '=', 'ipPool.id')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('usedCount'),
    )
}
