import { sql } from 'kysely'
import { z } from 'zod'
import * as api from '../../shared/api/admin.ts'
import type { Input } from '../../shared/contract.ts'
import { isoTime } from '../../shared/time.ts'
import type { Db, Queries } from '../core/db.ts'
import { parseJson } from '../core/json.ts'
import { type Route, route } from '../core/route.ts'
import { containing, contains } from '../core/text-search.ts'

const Details = z.record(z.string(), z.unknown())

/** The route of the audit log. */
export function auditLogRoutes(deps: { db: Db }): Route[] {
  return [route(api.listAuditLogs, ({ query }) => listRows(deps.db.read, query))]
}

type Filter = Input<typeof api.listAuditLogs>['query']

async function listRows(q: Queries, filter: Filter) {
  const matching = matchingRows(q, filter)
  const { total } = await matching.select((eb) => eb.fn.countAll<number>().as('total')).executeTakeFirstOrThrow()
  const rows = await matching
    .leftJoin('user', 'user.id', 'auditLog.userId')
    .selectAll('auditLog')
    .select(['user.username', 'user.email'])
    .orderBy('auditLog.createdAt', 'desc')
    .orderBy('auditLog.id', 'desc')
    .limit(filter.limit)
    .offset((filter.page - 1) * filter.limit)
    .execute()
  const items = rows.map(({ username, email, createdAt, details, ...row }) => ({
    ...row,
    details: details === null ? null : parseJson(Details, details),
    user: row.userId === null || username === null || email === null ? null : { id: row.userId, username, email },
    timestamp: createdAt,
  }))
  return { items, total: Number(total) }
}

function matchingRows(q: Queries, filter: Filter) {
  let query = q.selectFrom('auditLog')
  if (filter.userId !== undefined) query = query.where('auditLog.userId', '=', filter.userId)
  if (filter.resource !== undefined) query = query.where('auditLog.resource', '=', filter.resource)
  if (filter.resourceId !== undefined) query = query.where('auditLog.resourceId', '=', filter.resourceId)
  if (filter.requestId !== undefined) query = query.where('auditLog.requestId', '=', filter.requestId)
  if (filter.from !== undefined) query = query.where('auditLog.createdAt', '>=', isoTime(Date.parse(filter.from)))
  if (filter.to !== undefined) query = query.where('auditLog.createdAt', '<=', isoTime(Date.parse(filter.to)))
  if (filter.action !== undefined) query = query.where(contains(sql.ref('audit_log.action'), containing(filter.action)))
  return query
}
