import { z } from 'zod'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'

const Details = z.record(z.string(), z.unknown())

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
