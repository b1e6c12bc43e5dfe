import { z } from 'zod'
import * as api from '../../../../shared/api/profile.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import { type Route, route } from '../../../http/route.ts'
import { listApiKeyRows } from './api-key-rows.ts'
import type { AccountDeps } from './deps.ts'
import { wholeUser } from './whole-user.ts'

const Details = z.record(z.string(), z.unknown())

/** The routes of what the panel has written down about the caller. */
export function ownRecordRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listOwnAuditLogs, ({ query }, context) =>
      listOwnAudit(deps.db.read, { ...query, userId: wholeUser(context).userId }),
    ),
    route(api.listOwnApiKeys, ({ query }, context) =>
      listApiKeyRows(deps.db.read, { ...query, ownerId: wholeUser(context).userId }),
    ),
  ]
}

/** One page of what an account did, newest first. */
export async function listOwnAudit(q: Queries, query: { userId: string; page: number; limit: number }) {
  const own = q.selectFrom('auditLog').where('userId', '=', query.userId)
  const page = own
    .select('seq')
    .orderBy('createdAt', 'desc')
    .orderBy('seq', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
  const rows = await q
    .selectFrom('auditLog')
    .where('seq', 'in', page)
    .select(['id', 'apiKeyId', 'action', 'resource', 'resourceId', 'details', 'ipAddress', 'userAgent', 'requestId'])
    .select('createdAt as timestamp')
    .orderBy('createdAt', 'desc')
    .orderBy('seq', 'desc')
    .execute()
  const items = rows.map((row) => ({ ...row, details: row.details === null ? null : parseJson(Details, row.details) }))
  return { items, total: await totalOf(q, own, { query, found: rows.length }) }
}
