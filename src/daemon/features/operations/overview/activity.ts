import type { z } from 'zod'
import type { DashboardActivity } from '../../../../shared/api/dashboard.ts'
import type { Queries } from '../../../db/db.ts'

type Activity = z.input<typeof DashboardActivity>

/** Of a user's rows, so many are looked through for those of one API key, which no index knows. */
const LOOKED_THROUGH = 1000

/** Whose activity is asked for: a user's, of it that of one API key (`null`: of all credentials). */
export interface ActivityOf {
  readonly userId: string
  readonly apiKeyId: string | null
}

/** The last rows of the audit log in words; of one user, or of all. Both are read from an index, newest first. */
export async function lastActivity(
  q: Queries,
  asked: { readonly of: ActivityOf | undefined; readonly limit: number; readonly nowMs: number },
): Promise<Activity[]> {
  const { of } = asked
  let rows = q
    .selectFrom('auditLog')
    .leftJoin('user', 'user.id', 'auditLog.userId')
    .select(['auditLog.id', 'auditLog.action', 'auditLog.resource', 'auditLog.resourceId', 'auditLog.createdAt'])
    .select('user.username')
    .orderBy('auditLog.createdAt', 'desc')
    .orderBy('auditLog.seq', 'desc')
    .limit(asked.limit)
  if (of !== undefined) rows = rows.where('auditLog.userId', '=', of.userId)
  if (of?.apiKeyId != null) {
    const last = q.selectFrom('auditLog').select('seq').where('userId', '=', of.userId)
    const seqs = last.orderBy('createdAt', 'desc').orderBy('seq', 'desc').limit(LOOKED_THROUGH)
    rows = rows.where('auditLog.seq', 'in', seqs).where('auditLog.apiKeyId', '=', of.apiKeyId)
  }
  const found = await rows.execute()
  return found.map((row) => ({
    id: row.id,
    title: titleOf(row.action),
    detail: `${row.username ?? 'the panel'}: ${row.resource}${row.resourceId === null ? '' : ` ${row.resourceId}`}`,
    time: ago(asked.nowMs - Date.parse(row.createdAt)),
    type: typeOf(row.resource),
    action: row.action,
    timestamp: row.createdAt,
  }))
}

/** `server.transfer_ownership` → `Server transfer ownership`. */
function titleOf(action: string): string {
  const words = action.replace(/[._]/g, ' ')
  return `${words.slice(0, 1).toUpperCase()}${words.slice(1)}`
}

const TYPES: Readonly<Record<string, Activity['type']>> = {
  alert: 'alert',
  alert_rule: 'alert',
  backup: 'backup',
  database: 'server',
  file: 'server',
  ip_pool: 'node',
  location: 'node',
  nest: 'server',
  node: 'node',
  server: 'server',
  task: 'server',
  template: 'server',
}

/** What is done to anything else is shown as what a user did. */
function typeOf(resource: string): Activity['type'] {
  return TYPES[resource] ?? 'user'
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
] as const

function ago(ms: number): string {
  for (const [unit, length] of UNITS) if (ms >= length) return `${Math.floor(ms / length)}${unit} ago`
  return 'just now'
}
