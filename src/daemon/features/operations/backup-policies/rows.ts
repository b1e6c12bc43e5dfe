import { type Selectable, sql } from 'kysely'
import { z } from 'zod'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A policy as it is stored. */
export type PolicyRow = Selectable<Schema['backupPolicy']>

const Texts = z.array(z.string())

/** The servers that a policy names one by one. */
export function serverIdsOf({ serverIds }: Pick<PolicyRow, 'serverIds'>): string[] {
  return parseJson(Texts, serverIds)
}

/** What its backups leave out. */
export function ignoredOf({ ignored }: Pick<PolicyRow, 'ignored'>): string[] {
  return parseJson(Texts, ignored)
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

/** The servers that a policy means now. One that is not whole, is archived or goes away has nothing new to keep. */
export function meant(q: Queries, policy: PolicyRow) {
  const whole = q
    .selectFrom('server')
    .where('server.installed', '=', 1)
    .where('server.deletingAt', 'is', null)
    .where('server.archivedAt', 'is', null)
  const target = policy.targetId ?? ''
  switch (policy.target) {
    case 'all':
      return whole
    case 'node':
      return whole.where('server.nodeId', '=', target)
    case 'location':
      return whole.where(
        'server.nodeId',
        'in',
        q.selectFrom('node').select('node.id').where('node.locationId', '=', target),
      )
    case 'servers':
      return whole.where(sql<boolean>`server.id in (select value from json_each(${policy.serverIds}))`)
  }
}

/** Has a backup due for each server that the policy means; of one that is due already the earlier time stays. */
export async function makeDue(tx: Tx, policy: PolicyRow, dueAt: IsoTime): Promise<void> {
  const servers = meant(tx.q, policy).select(['server.id as serverId'])
  await tx.q
    .deleteFrom('backupPolicyServer')
    .where('policyId', '=', policy.id)
    .where('serverId', 'not in', servers)
    .execute()
  await tx.q
    .insertInto('backupPolicyServer')
    .columns(['policyId', 'serverId', 'dueAt'])
    .expression(
      meant(tx.q, policy).select([
        sql<string>`${policy.id}`.as('policyId'),
        'server.id as serverId',
        sql<IsoTime>`${dueAt}`.as('dueAt'),
      ]),
    )
    .onConflict((conflict) =>
      conflict.columns(['policyId', 'serverId']).doUpdateSet({ dueAt: sql`coalesce(due_at, ${dueAt})` }),
    )
    .execute()
}

/** Changes how a policy stands with a server. */
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

/** How many backups of a policy are open on each node, of whatever run. */
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

/** How a policy stands with each server that it means, by name; `turn`: its place in the run with this id. */
export async function standings(q: Queries, policy: PolicyRow, runId: string | undefined) {
  return meant(q, policy)
    .innerJoin('node', 'node.id', 'server.nodeId')
    .leftJoin('backupPolicyServer as standing', (join) =>
      join.onRef('standing.serverId', '=', 'server.id').on('standing.policyId', '=', policy.id),
    )
    .leftJoin('backupPolicyResult as result', (join) =>
      join.onRef('result.serverId', '=', 'server.id').on('result.runId', '=', runId ?? ''),
    )
    .select(['server.id as serverId', 'server.name as serverName', 'server.nodeId', 'node.name as nodeName'])
    .select(['server.activity', 'server.installed', 'result.state as turn', 'result.reason'])
    .select(['standing.dueAt', 'standing.lastBackupId', 'standing.lastSuccessAt', 'standing.lastFailureAt'])
    .select(['standing.lastError'])
    .orderBy('server.name')
    .orderBy('server.id')
    .execute()
}

/** A row of {@link standings}. */
export type Standing = Awaited<ReturnType<typeof standings>>[number]

/** As {@link standings}, counted: servers that stand alike. */
export async function countStandings(q: Queries, policy: PolicyRow, runId: string | undefined) {
  return meant(q, policy)
    .leftJoin('backupPolicyServer as standing', (join) =>
      join.onRef('standing.serverId', '=', 'server.id').on('standing.policyId', '=', policy.id),
    )
    .leftJoin('backupPolicyResult as result', (join) =>
      join.onRef('result.serverId', '=', 'server.id').on('result.runId', '=', runId ?? ''),
    )
    .select((eb) => ['standing.dueAt', 'result.state as turn', eb.fn.countAll<number>().as('count')])
    .groupBy(['standing.dueAt', 'result.state'])
    .execute()
}
