import { type Selectable, sql } from 'kysely'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { PolicyResultState, PolicyRunStatus } from '../../../db/schema/backups.ts'
import type { Schema } from '../../../db/schema.ts'
import { meant, type PolicyRow } from './rows.ts'

/** A run as it is stored. */
export type RunRow = Selectable<Schema['backupPolicyRun']>

/** How many runs of a policy are kept. */
const KEPT = 30

/** The run of a policy that is under way. */
export async function openRun(q: Queries, policyId: string): Promise<RunRow | undefined> {
  return q
    .selectFrom('backupPolicyRun')
    .selectAll()
    .where('policyId', '=', policyId)
    .where('status', '=', 'running')
    .executeTakeFirst()
}

export async function findRun(q: Queries, policyId: string, runId: string): Promise<RunRow | undefined> {
  return q
    .selectFrom('backupPolicyRun')
    .selectAll()
    .where('policyId', '=', policyId)
    .where('id', '=', runId)
    .executeTakeFirst()
}

/** One page of the runs of a policy, newest first. */
export async function listRuns(
  q: Queries,
  query: { policyId: string; status?: PolicyRunStatus | undefined; page: number; limit: number },
): Promise<{ readonly rows: RunRow[]; readonly total: number }> {
  let matching = q.selectFrom('backupPolicyRun').selectAll().where('policyId', '=', query.policyId)
  if (query.status !== undefined) matching = matching.where('status', '=', query.status)
  const rows = await matching
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { rows, total: await totalOf(q, matching, { query, found: rows.length }) }
}

/** A new run in which each server that the policy means waits for its turn. The one before must have ended. */
export async function insertRun(
  tx: Tx,
  clock: Clock,
  policy: PolicyRow,
  { cause, dueAt, startedBy }: Pick<RunRow, 'cause' | 'dueAt' | 'startedBy'>,
): Promise<RunRow> {
  const run = await tx.q
    .insertInto('backupPolicyRun')
    .values({
      ...{ id: newId('bpr', clock), policyId: policy.id, cause, dueAt, startedBy },
      ...{ status: 'running', createdAt: tx.now, endedAt: null },
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await tx.q
    .insertInto('backupPolicyResult')
    .columns(['runId', 'serverId', 'serverName', 'state'])
    .expression(
      meant(tx.q, policy).select([
        sql<string>`${run.id}`.as('runId'),
        'server.id as serverId',
        'server.name as serverName',
        sql<PolicyResultState>`'waiting'`.as('state'),
      ]),
    )
    .execute()
  return run
}

/** Forgets all but the last runs of a policy. */
export async function forgetRuns(tx: Tx, policyId: string): Promise<void> {
  const kept = tx.q
    .selectFrom('backupPolicyRun')
    .select('id')
    .where('policyId', '=', policyId)
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(KEPT)
  await tx.q.deleteFrom('backupPolicyRun').where('policyId', '=', policyId).where('id', 'not in', kept).execute()
}

export async function endRun(tx: Tx, id: string, status: PolicyRunStatus): Promise<void> {
  await tx.q.updateTable('backupPolicyRun').set({ status, endedAt: tx.now }).where('id', '=', id).execute()
}

/** How many servers of runs are in each state, by run. */
export async function countResults(
  q: Queries,
  runIds: readonly string[],
): Promise<Map<string, Record<PolicyResultState, number>>> {
  const counts = new Map(runIds.map((id) => [id, { waiting: 0, running: 0, completed: 0, failed: 0, skipped: 0 }]))
  if (runIds.length === 0) return counts
  const rows = await q
    .selectFrom('backupPolicyResult')
    .select((eb) => ['runId', 'state', eb.fn.countAll<number>().as('count')])
    .where('runId', 'in', runIds)
    .groupBy(['runId', 'state'])
    .execute()
  for (const { runId, state, count } of rows) {
    const of = counts.get(runId)
    if (of !== undefined) of[state] = Number(count)
  }
  return counts
}

/** Backups of a run that its rows hold for open, with how these stand by now. */
export async function runningResults(q: Queries, runId: string) {
  return q
    .selectFrom('backupPolicyResult as result')
    .leftJoin('backup', 'backup.id', 'result.backupId')
    .select(['result.serverId', 'result.backupId', 'result.startedAt', 'backup.status', 'backup.error'])
    .select(['backup.completedAt', 'backup.nodeId', 'backup.jobId'])
    .where('result.runId', '=', runId)
    .where('result.state', '=', 'running')
    .execute()
}

/** How many servers of a run wait, by their nodes. */
export async function waitingByNode(q: Queries, runId: string): Promise<{ nodeId: string; count: number }[]> {
  return q
    .selectFrom('backupPolicyResult as result')
    .innerJoin('server', 'server.id', 'result.serverId')
    .select((eb) => ['server.nodeId', eb.fn.countAll<number>().as('count')])
    .where('result.runId', '=', runId)
    .where('result.state', '=', 'waiting')
    .groupBy('server.nodeId')
    .execute()
}

/**
 * The servers of a run on a node that are next: those whose backup is due longest. What is being installed, restored or moved has its turn
 * when that is over.
 */
export async function nextOnNode(
  q: Queries,
  { runId, policyId, nodeId, limit }: { runId: string; policyId: string; nodeId: string; limit: number },
): Promise<string[]> {
  const rows = await q
    .selectFrom('backupPolicyResult as result')
    .innerJoin('server', 'server.id', 'result.serverId')
    .leftJoin('backupPolicyServer as standing', (join) =>
      join.onRef('standing.serverId', '=', 'result.serverId').on('standing.policyId', '=', policyId),
    )
    .select('result.serverId')
    .where('result.runId', '=', runId)
    .where('result.state', '=', 'waiting')
    .where('server.nodeId', '=', nodeId)
    .where('server.installed', '=', 1)
    .where('server.activity', 'is', null)
    .orderBy('standing.dueAt')
    .orderBy('result.serverName')
    .orderBy('result.serverId')
    .limit(limit)
    .execute()
  return rows.map(({ serverId }) => serverId)
}

/** Changes what became of one server in a run. */
export async function setResult(
  tx: Tx,
  { runId, serverId }: { readonly runId: string; readonly serverId: string },
  to: Partial<Selectable<Schema['backupPolicyResult']>>,
): Promise<void> {
  await tx.q
    .updateTable('backupPolicyResult')
    .set(to)
    .where('runId', '=', runId)
    .where('serverId', '=', serverId)
    .execute()
}

/** Ends all of a run that is open. */
export async function skipOpen(tx: Tx, runId: string, reason: string): Promise<void> {
  await tx.q
    .updateTable('backupPolicyResult')
    .set({ state: 'skipped', reason, endedAt: tx.now })
    .where('runId', '=', runId)
    .where('state', 'in', ['waiting', 'running'])
    .execute()
}

/** Ends what waits for servers that are gone, or about to go. */
export async function skipGone(tx: Tx, runId: string): Promise<void> {
  await tx.q
    .updateTable('backupPolicyResult')
    .set({ state: 'skipped', reason: 'the server is gone', endedAt: tx.now })
    .where('runId', '=', runId)
    .where('state', '=', 'waiting')
    .where('serverId', 'not in', tx.q.selectFrom('server').select('server.id').where('server.deletingAt', 'is', null))
    .execute()
}

/** One page of what became of the servers of a run, by name. */
export async function listResults(
  q: Queries,
  query: { runId: string; state?: PolicyResultState | undefined; page: number; limit: number },
) {
  let matching = q
    .selectFrom('backupPolicyResult as result')
    .leftJoin('server', 'server.id', 'result.serverId')
    .leftJoin('node', 'node.id', 'server.nodeId')
    .select(['result.serverId', 'result.serverName', 'result.state', 'result.backupId', 'result.reason'])
    .select(['result.startedAt', 'result.endedAt', 'node.id as nodeId', 'node.name as nodeName'])
    .select(['server.activity', 'server.installed'])
    .where('result.runId', '=', query.runId)
  if (query.state !== undefined) matching = matching.where('result.state', '=', query.state)
  const rows = await matching
    .orderBy('result.serverName')
    .orderBy('result.serverId')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { rows, total: await totalOf(q, matching, { query, found: rows.length }) }
}

/** A row of {@link listResults}. */
export type ResultRow = Awaited<ReturnType<typeof listResults>>['rows'][number]

/** Has no backup due any more of the servers that a run still was to back up. */
export async function clearDue(tx: Tx, { id, policyId }: RunRow): Promise<void> {
  const open = tx.q
    .selectFrom('backupPolicyResult')
    .select('serverId')
    .where('runId', '=', id)
    .where('state', 'in', ['waiting', 'running'])
  const none: { dueAt: IsoTime | null } = { dueAt: null }
  await tx.q
    .updateTable('backupPolicyServer')
    .set(none)
    .where('policyId', '=', policyId)
    .where('serverId', 'in', open)
    .execute()
}
