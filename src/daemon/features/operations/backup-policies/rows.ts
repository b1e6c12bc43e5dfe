import { type Selectable, sql } from 'kysely'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { z } from 'zod'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A policy as it is stored. */
export type PolicyRow = Selectable<Schema['backupPolicy']>

const Texts = z.array(z.string())

export function serverIdsOf({ serverIds }: Pick<PolicyRow, 'serverIds'>): string[] {
  return parseJson(Texts, serverIds)
}

/** One page of policies by name. */
export async function listPolicies(
  q: Queries,
  { search, page, limit }: { search?: string | undefined; page: number; limit: number },
): Promise<{ readonly rows: PolicyRow[]; readonly total: number }> {
  let matching = q.selectFrom('backupPolicy').selectAll()
  if (search !== undefined) matching = matching.where(textMatches(search, 'backupPolicy.id', ['backupPolicy.name']))
  const rows = await matching.orderBy('name').orderBy('id').limit(limit).offset(offsetOf({ page, limit })).execute()
  return { rows, total: await totalOf(q, matching, { query: { page, limit }, found: rows.length }) }
}

export async function findPolicy(q: Queries, id: string): Promise<PolicyRow | undefined> {
  return q.selectFrom('backupPolicy').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The servers that a policy means now; one that is not whole or goes away has nothing to back up. */
export function meant(q: Queries, policy: PolicyRow) {
  const whole = q.selectFrom('server').where('server.installed', '=', 1).where('server.deletingAt', 'is', null)
  switch (policy.target) {
    case 'all':
      return whole
    case 'node':
      return whole.where('server.nodeId', '=', policy.targetId ?? '')
    case 'location':
      return whole.where('server.nodeId', 'in', q.selectFrom('node').select('node.id').where('node.locationId', '=', policy.targetId ?? ''))
    case 'servers': {
      const ids = sql<string>`(select value from json_each(${policy.serverIds}))`
      return whole.where(sql<boolean>`server.id in ${ids}`)
    }
  }
}

/** Has a backup due for each server that the policy means, as of this time; answers how many servers there are. */
export async function makeDue(tx: Tx, policy: PolicyRow, at: IsoTime): Promise<number> {
  const servers = await meant(tx.q, policy).select('server.id').execute()
  for (const { id: serverId } of servers) {
    await tx.q
      .insertInto('backupPolicyServer')
      .values({
        ...{ policyId: policy.id, serverId, dueAt: at, pending: 1, backupId: null },
        ...{ lastSuccessAt: null, lastFailureAt: null, lastError: null, since: tx.now },
      })
      .onConflict((conflict) =>
        // One that is due already stays due since then.
        conflict.columns(['policyId', 'serverId']).doUpdateSet({ dueAt: sql`coalesce(due_at, ${at})`, pending: 1 }),
      )
      .execute()
  }
  return servers.length
}

/** Forgets how the policy stands with servers that it no longer means. */
export async function forgetOthers(tx: Tx, policy: PolicyRow): Promise<void> {
  await tx.q
    .deleteFrom('backupPolicyServer')
    .where('policyId', '=', policy.id)
    .where('serverId', 'not in', meant(tx.q, policy).select('server.id'))
    .execute()
}

/** What waits for its turn, those that are due longest first, with the backup that is under way for the same server if there is one. */
export async function pendingOf(q: Queries, policyId: string) {
  return q
    .selectFrom('backupPolicyServer')
    .innerJoin('server', 'server.id', 'backupPolicyServer.serverId')
    .leftJoin('backup', 'backup.id', 'backupPolicyServer.backupId')
    .select(['backupPolicyServer.serverId', 'backupPolicyServer.dueAt', 'server.nodeId', 'backup.status as status'])
    .where('backupPolicyServer.policyId', '=', policyId)
    .where('backupPolicyServer.pending', '=', 1)
    .orderBy('backupPolicyServer.dueAt')
    .orderBy('backupPolicyServer.serverId')
    .execute()
}

/** How many backups of a policy are open on each node. */
export async function openByNode(q: Queries, policyId: string): Promise<Map<string, number>> {
  const rows = await q
    .selectFrom('backup')
    .select((eb) => ['nodeId', eb.fn.countAll<number>().as('count')])
    .where('policyId', '=', policyId)
    .where('status', 'in', ['pending', 'in_progress'])
    .groupBy('nodeId')
    .execute()
  return new Map(rows.map(({ nodeId, count }) => [nodeId ?? '', Number(count)]))
}

export async function setServer(
  tx: Tx,
  { policyId, serverId }: { readonly policyId: string; readonly serverId: string },
  to: Partial<Selectable<Schema['backupPolicyServer']>>,
): Promise<void> {
  await tx.q
    .updateTable('backupPolicyServer')
    .set(to)
    .where('policyId', '=', policyId)
    .where('serverId', '=', serverId)
    .execute()
}

/** How a policy stands with each server that it means. */
export async function standings(q: Queries, policy: PolicyRow) {
  return meant(q, policy)
    .innerJoin('node', 'node.id', 'server.nodeId')
    .leftJoin('backupPolicyServer as state', (join) =>
      join.onRef('state.serverId', '=', 'server.id').on('state.policyId', '=', policy.id),
    )
    .leftJoin('backup', 'backup.id', 'state.backupId')
    .select(['server.id as serverId', 'server.name as serverName', 'server.nodeId', 'node.name as nodeName'])
    .select(['state.dueAt', 'state.pending', 'state.backupId', 'state.lastSuccessAt', 'state.lastFailureAt', 'state.lastError'])
    .select(['backup.status as status'])
    .orderBy('server.name')
    .orderBy('server.id')
    .execute()
}

export type Standing = Awaited<ReturnType<typeof standings>>[number]
