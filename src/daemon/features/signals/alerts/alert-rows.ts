import { type ExpressionBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { AlertDelivery, alertStats, listAlerts } from '../../../../shared/api/alerts.ts'
import type { Alert } from '../../../../shared/kernel/alert.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { assignedNodes } from '../../../access/relations.ts'
import type { Db, Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import type { AlertReach } from './reach.ts'

/** An alert's row with the names of what it is about. */
export type AlertRow = NonNullable<Awaited<ReturnType<typeof findAlertRow>>>

type Query = Input<typeof listAlerts>['query']
type Where = ExpressionBuilder<Schema, 'alert'>

const Metadata = z.record(z.string(), z.unknown())
const BATCH = 500

function joined(q: Queries) {
  return q
    .selectFrom('alert')
    .leftJoin('alertRule', 'alertRule.id', 'alert.ruleId')
    .leftJoin('server', 'server.id', 'alert.serverId')
    .leftJoin('node', 'node.id', 'alert.nodeId')
    .selectAll('alert')
    .select(['alertRule.name as ruleName', 'server.name as serverName', 'node.name as nodeName'])
    .select(['server.ownerId as serverOwnerId', 'server.nodeId as serverNodeId'])
}

/** One alert. */
export async function findAlertRow(q: Queries, id: string) {
  return joined(q).where('alert.id', '=', id).executeTakeFirst()
}

/** Several alerts that are listed, in no order. */
export async function findAlertRows(q: Queries, ids: readonly string[]): Promise<AlertRow[]> {
  return joined(q)
    .where('alert.id', 'in', [...ids])
    .where('alert.listed', '=', 1)
    .execute()
}

/** How many listed alerts are open; an alert that somebody has looked at is resolved. */
export async function countOpenAlerts(q: Queries): Promise<{ open: number; unacknowledged: number }> {
  const { open } = await q
    .selectFrom('alert')
    .where('listed', '=', 1)
    .where('resolvedAt', 'is', null)
    .select((eb) => eb.fn.countAll<number>().as('open'))
    .executeTakeFirstOrThrow()
  return { open: Number(open), unacknowledged: Number(open) }
}

/** The open alerts about one server or node, of one type if it is given. */
export async function openAbout(q: Queries, subjectId: string, type?: Alert['type']): Promise<AlertRow[]> {
  const open = joined(q).where('alert.subjectId', '=', subjectId).where('alert.resolvedAt', 'is', null)
  return (type === undefined ? open : open.where('alert.type', '=', type)).execute()
}

/** The open alerts of rules of these types. */
export async function openOfTypes(q: Queries, types: readonly Alert['type'][]): Promise<AlertRow[]> {
  return joined(q)
    .where('alert.resolvedAt', 'is', null)
    .where('alert.type', 'in', [...types])
    .execute()
}

/** The open alerts of one rule. */
export async function openOfRule(q: Queries, ruleId: string): Promise<AlertRow[]> {
  return joined(q).where('alert.ruleId', '=', ruleId).where('alert.resolvedAt', 'is', null).execute()
}

/** One page of the alerts that somebody may see, newest first. */
export async function listAlertRows(q: Queries, reach: AlertReach, query: Omit<Query, 'scope'>) {
  let matching = q.selectFrom('alert').where((where) => reached(where, reach))
  for (const column of ['serverId', 'nodeId', 'type', 'severity'] as const) {
    const value = query[column]
    if (value !== undefined) matching = matching.where(`alert.${column}`, '=', value)
  }
  if (query.resolved !== undefined)
    matching = matching.where('alert.resolvedAt', query.resolved ? 'is not' : 'is', null)
  const ids = matching
    .select('alert.id')
    .orderBy('alert.createdAt', 'desc')
    .orderBy('alert.id', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
  const rows = await joined(q)
    .where('alert.id', 'in', ids)
    .orderBy('alert.createdAt', 'desc')
    .orderBy('alert.id', 'desc')
    .execute()
  return { items: rows.map(toAlert), total: await totalOf(q, matching, { query, found: rows.length }) }
}

/** How many alerts somebody may see, and what is open. */
export async function countAlerts(q: Queries, reach: AlertReach): Promise<Answer<typeof alertStats>> {
  const matching = q.selectFrom('alert').where((where) => reached(where, reach))
  const count = sql<number>`count(*)`.as('count')
  const all = await matching.select(count).executeTakeFirstOrThrow()
  const open = await matching
    .where('alert.resolvedAt', 'is', null)
    .select(['alert.severity', 'alert.type', count])
    .groupBy(['alert.severity', 'alert.type'])
    .execute()
  const bySeverity = { info: 0, warning: 0, critical: 0 }
  const byType = {
    resource_threshold: 0,
    node_offline: 0,
    server_crashed: 0,
    backup_failed: 0,
    backup_overdue: 0,
    custom: 0,
  }
  let unresolved = 0
  for (const row of open) {
    const number = Number(row.count)
    unresolved += number
    bySeverity[row.severity] += number
    byType[row.type] += number
  }
  return { total: Number(all.count), unresolved, bySeverity, byType }
}

/** The messages about an alert, oldest first. */
export async function deliveriesOf(q: Queries, alertId: string): Promise<z.input<typeof AlertDelivery>[]> {
  const rows = await q
    .selectFrom('delivery')
    .select(['id', 'alertId', 'channel', 'target', 'event', 'status', 'attempts', 'nextAttemptAt', 'lastAttemptAt'])
    .select(['lastError', 'createdAt', 'updatedAt'])
    .where('alertId', '=', alertId)
    .orderBy('createdAt')
    .orderBy('id')
    .limit(1000)
    .execute()
  return rows.map((row) => ({ ...row, alertId }))
}

/** Forgets alerts that were resolved before. */
export async function pruneAlerts(db: Db, before: IsoTime): Promise<void> {
  for (;;) {
    const removed = await db.write(async (tx) => {
      const old = tx.q.selectFrom('alert').select('id').where('resolvedAt', '<', before).limit(BATCH)
      return Number((await tx.q.deleteFrom('alert').where('id', 'in', old).executeTakeFirst()).numDeletedRows)
    })
    if (removed < BATCH) return
  }
}

/** An alert as the API answers it. */
export function toAlert(row: AlertRow): Alert {
  const { id, ruleId, userId, serverId, nodeId, type, severity, title, message, createdAt, resolvedAt, resolvedBy } =
    row
  return {
    id,
    ruleId,
    userId,
    serverId,
    nodeId,
    type,
    severity,
    title,
    message,
    metadata: parseJson(Metadata, row.metadata),
    resolved: resolvedAt !== null,
    resolvedAt,
    resolvedBy,
    createdAt,
    rule: named(ruleId, row.ruleName),
    server: named(serverId, row.serverName),
    node: named(nodeId, row.nodeName),
  }
}

function named(id: string | null, name: string | null): { id: string; name: string } | null {
  return id === null || name === null ? null : { id, name }
}

function reached(where: Where, reach: AlertReach) {
  const listed = where('alert.listed', '=', 1)
  if (reach === 'all') return listed
  const { ids, related } = reach
  const ways = ids.length === 0 ? [] : [where('alert.serverId', 'in', [...ids])]
  if (related === null) return where.and([listed, where.or([...ways, sql<boolean>`1 = 0`])])
  const servers = where('alert.serverId', 'in', serversOf(where, related))
  const { only } = related
  const share = only === null ? servers : where.and([servers, where('alert.serverId', 'in', [...only])])
  const mine = only === null ? [where('alert.userId', '=', related.userId)] : []
  return where.and([listed, where.or([...ways, share, ...mine])])
}

/** The servers that the user owns, was granted the alerts of, or has the node of. */
function serversOf(where: Where, { userId, now, everyNode }: Exclude<Exclude<AlertReach, 'all'>['related'], null>) {
  const granted = where
    .selectFrom('serverAccess')
    .select('serverAccess.serverId')
    .where('serverAccess.userId', '=', userId)
    .where((eb) => eb.or([eb('serverAccess.expiresAt', 'is', null), eb('serverAccess.expiresAt', '>', now)]))
    .where('serverAccess.permissions', 'like', '%"alert.read"%')
  const servers = where.selectFrom('server').select('server.id')
  if (everyNode) return servers
  return servers.where((eb) =>
    eb.or([
      eb('server.ownerId', '=', userId),
      eb('server.id', 'in', granted),
      eb('server.nodeId', 'in', assignedNodes({ userId, now })),
    ]),
  )
}
