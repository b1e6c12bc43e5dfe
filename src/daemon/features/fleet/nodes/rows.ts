import { type Insertable, sql, type Updateable } from 'kysely'
import { type ServerStatus, serverStatus } from '../../../../shared/kernel/server-life.ts'
import type { Visibility } from '../../../access/permit.ts'
import { assignedNodes } from '../../../access/relations.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A node with the name of its location and the number of its servers. */
export type NodeRow = Awaited<ReturnType<ReturnType<typeof selectNodes>['executeTakeFirstOrThrow']>>

/** What the servers of a node have been given, and how many of them run. Servers that are being deleted still count. */
export interface NodeUsage {
  readonly memoryMb: number
  readonly cpuCores: number
  readonly total: number
  readonly running: number
  readonly stopped: number
}

const NO_USAGE: NodeUsage = { memoryMb: 0, cpuCores: 0, total: 0, running: 0, stopped: 0 }

interface NodeQuery {
  readonly search?: string | undefined
  readonly locationId?: string | undefined
  readonly page: number
  readonly limit: number
  /** Which nodes the list shows; all without it. */
  readonly visibility?: Visibility
}

/** One page of nodes by name, with the number of all that match. */
export async function listNodes(q: Queries, query: NodeQuery): Promise<{ items: NodeRow[]; total: number }> {
  const matching = (): ReturnType<typeof selectNodes> => {
    let nodes = selectNodes(q)
    if (query.locationId !== undefined) nodes = nodes.where('node.locationId', '=', query.locationId)
    if (query.visibility !== undefined) nodes = seen(nodes, query.visibility)
    if (query.search === undefined) return nodes
    return nodes.where(
      textMatches(query.search, 'node.id', ['node.name', 'node.description', 'node.hostname', 'node.publicAddress']),
    )
  }
  const items = await matching()
    .orderBy('node.name')
    .orderBy('node.id')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { items, total: await totalOf(q, matching(), { query, found: items.length }) }
}

/** Those that are named, and those that are assigned to the user. */
function seen(nodes: ReturnType<typeof selectNodes>, visibility: Visibility): ReturnType<typeof selectNodes> {
  if (visibility === 'all') return nodes
  const { ids, related } = visibility
  return nodes.where((eb) =>
    eb.or([
      ...(ids.length === 0 ? [] : [eb('node.id', 'in', [...ids])]),
      ...(related === null ? [] : [eb('node.id', 'in', assignedNodes(related))]),
      sql<boolean>`1 = 0`,
    ]),
  )
}

/** What shows whether a node is well, of the nodes that somebody may see, by name. */
export async function nodeFacts(q: Queries, visibility: Visibility) {
  const facts = q
    .selectFrom('node')
    .select(['node.id', 'node.name', 'node.maintenance', 'node.lastSeenAt', 'node.maxCpuCores'])
  const shown =
    visibility === 'all'
      ? facts
      : facts.where('node.id', 'in', seen(selectNodes(q), visibility).clearSelect().select('node.id'))
  return shown.orderBy('node.name').orderBy('node.id').execute()
}

/** The nodes of a location by name. */
export async function nodesOfLocation(q: Queries, locationId: string): Promise<NodeRow[]> {
  return selectNodes(q).where('node.locationId', '=', locationId).orderBy('node.name').execute()
}

/** The node with this id. */
export async function findNode(q: Queries, id: string): Promise<NodeRow | undefined> {
  return selectNodes(q).where('node.id', '=', id).executeTakeFirst()
}

/** What has been given away on each of the nodes, by node id; every asked node has an entry. */
export async function nodeUsage(q: Queries, nodeIds: readonly string[]): Promise<(nodeId: string) => NodeUsage> {
  if (nodeIds.length === 0) return () => NO_USAGE
  const rows = await q
    .selectFrom('server')
    .where('nodeId', 'in', [...nodeIds])
    .groupBy('nodeId')
    .select((eb) => [
      'nodeId',
      eb.fn.sum<number>('memoryMb').as('memoryMb'),
      eb.fn.sum<number>('cpuCores').as('cpuCores'),
      eb.fn.countAll<number>().as('total'),
      eb.fn.sum<number>(eb.case().when('power', '=', 'running').then(sql.lit(1)).else(sql.lit(0)).end()).as('running'),
      eb.fn.sum<number>(eb.case().when('power', '=', 'offline').then(sql.lit(1)).else(sql.lit(0)).end()).as('stopped'),
    ])
    .execute()
  const usages = new Map(
    rows.map((row) => [
      row.nodeId,
      {
        memoryMb: Number(row.memoryMb),
        cpuCores: roundedCores(Number(row.cpuCores)),
        total: Number(row.total),
        running: Number(row.running),
        stopped: Number(row.stopped),
      },
    ]),
  )
  return (nodeId) => usages.get(nodeId) ?? NO_USAGE
}

/** The servers of a node by name, as its detail shows them. */
export async function serversOfNode(
  q: Queries,
  nodeId: string,
): Promise<{ id: string; uuid: string; name: string; status: ServerStatus }[]> {
  const rows = await q
    .selectFrom('server')
    .select(['id', 'uuid', 'name', 'deletingAt', 'archivedAt', 'suspendedAt', 'activity', 'power', 'crashed', 'failed'])
    .where('nodeId', '=', nodeId)
    .orderBy('name')
    .orderBy('id')
    .execute()
  return rows.map((row) => ({
    id: row.id,
    uuid: row.uuid,
    name: row.name,
    status: serverStatus({ ...row, crashed: row.crashed === 1, failed: row.failed === 1 }),
  }))
}

/** Fails with the database's UNIQUE violation for a taken name, FOREIGN KEY violation for an unknown location. */
export async function insertNode(q: Queries, row: Insertable<Schema['node']>): Promise<void> {
  await q.insertInto('node').values(row).execute()
}

/** Fails as {@link insertNode} does. The servers of a node stand where their node stands. */
export async function updateNode(q: Queries, id: string, fields: Updateable<Schema['node']>): Promise<void> {
  await q.updateTable('node').set(fields).where('id', '=', id).execute()
  if (fields.locationId === undefined) return
  await q
    .updateTable('server')
    .set({ locationId: fields.locationId })
    .where('nodeId', '=', id)
    .where('locationId', '!=', fields.locationId)
    .execute()
}

/**
 * Deletes the node with its keys, tokens and allocations, and answers its name; fails with the database's FOREIGN KEY
 * violation while it has servers.
 */
export async function deleteNode(q: Queries, id: string): Promise<{ name: string } | undefined> {
  return q.deleteFrom('node').where('id', '=', id).returning('name').executeTakeFirst()
}

/** Sums of tenths do not come out even in binary; a thousandth of a core is finer than anything given. */
export function roundedCores(cores: number): number {
  return Math.round(cores * 1000) / 1000
}

function selectNodes(q: Queries) {
  return q
    .selectFrom('node')
    .innerJoin('location', 'location.id', 'node.locationId')
    .selectAll('node')
    .select('location.name as locationName')
    .select((eb) =>
      eb
        .selectFrom('server')
        .whereRef('server.nodeId', '=', 'node.id')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .as('serverCount'),
    )
}
