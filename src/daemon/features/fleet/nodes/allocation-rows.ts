import { sql } from 'kysely'
import type { z } from 'zod'
import type { Allocation } from '../../../../shared/api/allocations.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { serverStatus } from '../../../../shared/kernel/server-life.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { textMatches } from '../../../db/text-search.ts'
import { compareIps } from './addresses.ts'

type AllocationAnswer = z.input<typeof Allocation>

interface AllocationQuery {
  readonly search?: string | undefined
  readonly serverId?: string | undefined
  readonly assigned?: 'true' | 'false' | undefined
  readonly page: number
  readonly limit: number
}

interface Note {
  readonly alias: string | null
  readonly notes: string | null
}

/** How many rows go into one statement; SQLite takes 32,766 values in one. */
const CHUNK = 500

/**
 * One page of a node's allocations by address (as a number) and port, with the number of all that match. The database
 * cannot order addresses, so it counts the rows of each; only the addresses that touch the page are then read.
 */
export async function listAllocations(
  q: Queries,
  nodeId: string,
  query: AllocationQuery,
): Promise<{ items: AllocationAnswer[]; total: number }> {
  const counts = await matching(q, nodeId, query)
    .groupBy('allocation.ip')
    .select((eb) => ['allocation.ip', eb.fn.countAll<number>().as('count')])
    .execute()
  const blocks = counts
    .map(({ ip, count }) => ({ ip, count: Number(count) }))
    .toSorted((left, right) => compareIps(left.ip, right.ip))
  const total = blocks.reduce((sum, { count }) => sum + count, 0)
  let skip = (query.page - 1) * query.limit
  const items: AllocationAnswer[] = []
  for (const { ip, count } of blocks) {
    if (items.length >= query.limit) break
    if (skip < count) {
      const shown = matching(q, nodeId, query)
        .where('allocation.ip', '=', ip)
        .select('allocation.id')
        .orderBy('allocation.port')
        .limit(query.limit - items.length)
        .offset(skip)
      const rows = await withServer(q.selectFrom('allocation').where('allocation.id', 'in', shown))
        .orderBy('allocation.port')
        .execute()
      items.push(...rows.map(toAllocation))
    }
    skip = Math.max(0, skip - count)
  }
  return { items, total }
}

/** The allocation of the node with this id. */
export async function findAllocation(q: Queries, nodeId: string, id: string): Promise<AllocationAnswer | undefined> {
  const row = await withServer(q.selectFrom('allocation'))
    .where('allocation.nodeId', '=', nodeId)
    .where('allocation.id', '=', id)
    .executeTakeFirst()
  return row === undefined ? undefined : toAllocation(row)
}

/** Adds what the node does not have yet; answers how many that were. */
export async function insertAllocations(
  tx: Tx,
  clock: Clock,
  { nodeId, pairs, note }: { nodeId: string; pairs: readonly { ip: string; port: number }[]; note: Note },
): Promise<number> {
  let created = 0
  for (let from = 0; from < pairs.length; from += CHUNK) {
    const rows = pairs.slice(from, from + CHUNK).map(({ ip, port }) => ({
      id: newId('alc', clock),
      nodeId,
      serverId: null,
      ip,
      port,
      ...note,
      createdAt: tx.now,
      updatedAt: tx.now,
    }))
    const inserted = await tx.q
      .insertInto('allocation')
      .values(rows)
      .onConflict((conflict) => conflict.columns(['nodeId', 'ip', 'port']).doNothing())
      .returning('id')
      .execute()
    created += inserted.length
  }
  return created
}

export async function updateAllocationNote(tx: Tx, id: string, note: Note): Promise<void> {
  await tx.q
    .updateTable('allocation')
    .set({ ...note, updatedAt: tx.now })
    .where('id', '=', id)
    .execute()
}

/** Deletes the allocation unless a server has it; answers what it was. */
export async function deleteFreeAllocation(
  tx: Tx,
  nodeId: string,
  id: string,
): Promise<{ ip: string; port: number } | undefined> {
  return tx.q
    .deleteFrom('allocation')
    .where('id', '=', id)
    .where('nodeId', '=', nodeId)
    .where('serverId', 'is', null)
    .returning(['ip', 'port'])
    .executeTakeFirst()
}

function matching(q: Queries, nodeId: string, { search, serverId, assigned }: AllocationQuery) {
  let rows = q.selectFrom('allocation').where('allocation.nodeId', '=', nodeId)
  if (serverId !== undefined) rows = rows.where('allocation.serverId', '=', serverId)
  if (assigned !== undefined) rows = rows.where('allocation.serverId', assigned === 'true' ? 'is not' : 'is', null)
  if (search === undefined) return rows
  const text = textMatches(search, 'allocation.id', ['allocation.ip', 'allocation.alias', 'allocation.notes'])
  const pair = sql<string>`${sql.ref('allocation.ip')} || ':' || ${sql.ref('allocation.port')}`
  const word = search.trim()
  return rows.where((eb) => {
    const port = /^\d{1,5}$/.test(word) ? [eb('allocation.port', '=', Number(word))] : []
    return eb.or([text, eb(pair, '=', word), ...port])
  })
}

function withServer(rows: ReturnType<typeof matching>) {
  return rows
    .leftJoin('server', 'server.id', 'allocation.serverId')
    .selectAll('allocation')
    .select(['server.name as serverName', 'server.deletingAt', 'server.archivedAt', 'server.suspendedAt'])
    .select(['server.activity', 'server.power', 'server.crashed', 'server.failed'])
}

function toAllocation(
  row: Awaited<ReturnType<ReturnType<typeof withServer>['executeTakeFirstOrThrow']>>,
): AllocationAnswer {
  const { serverName, deletingAt, archivedAt, suspendedAt, activity, power, crashed, failed, ...allocation } = row
  if (row.serverId === null || serverName === null || power === null) return { ...allocation, server: null }
  const life = { deletingAt, archivedAt, suspendedAt, activity, power, crashed: crashed === 1, failed: failed === 1 }
  return { ...allocation, server: { id: row.serverId, name: serverName, status: serverStatus(life) } }
}
