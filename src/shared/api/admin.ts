import { z } from 'zod'
import { defineEndpoint, defineStream } from '../kernel/contract.ts'
import { EVENTS } from '../kernel/events.ts'
import { pageQuery } from '../kernel/page.ts'
import { ANY_ADMIN_PERMISSION } from '../kernel/permissions.ts'
import { Instant, IsoTime } from '../kernel/time.ts'

const adminEvents = Object.fromEntries(Object.entries(EVENTS).map(([type, kind]) => [type, kind.data]))

export const streamAdminEvents = defineStream({
  id: 'admin.events',
  tag: 'Admin Events',
  summary: 'Follow what happens to users, nodes, servers and settings; each event only to whom its permission belongs',
  path: '/api/admin/events',
  access: { anyOf: ANY_ADMIN_PERMISSION },
  /** `types`: a comma-separated choice of event types. */
  query: z.object({ types: z.string().max(2000).optional() }),
  events: adminEvents,
  errors: ['AUTH_EXPIRED', 'STREAM_LIMIT_REACHED'],
})

/** One row of the audit log: who changed what, from where. Secrets in `details` are masked. */
export const AuditLog = z.object({
  id: z.string(),
  userId: z.string().nullable(),
  apiKeyId: z.string().nullable(),
  action: z.string(),
  resource: z.string(),
  resourceId: z.string().nullable(),
  details: z.record(z.string(), z.unknown()).nullable(),
  ipAddress: z.string().nullable(),
  userAgent: z.string().nullable(),
  requestId: z.string().nullable(),
  user: z.object({ id: z.string(), username: z.string(), email: z.string() }).nullable(),
  timestamp: IsoTime,
})
export type AuditLog = z.infer<typeof AuditLog>

/** Which rows are meant; all of those given must fit. */
export const auditFilter = {
  userId: z.string().max(64).optional(),
  /** Contained in the action's name. */
  action: z.string().max(100).optional(),
  resource: z.string().max(100).optional(),
  resourceId: z.string().max(100).optional(),
  requestId: z.string().max(100).optional(),
  /** The address that the request came from. */
  address: z.string().max(64).optional(),
  from: Instant.optional(),
  to: Instant.optional(),
} as const

export const listAuditLogs = defineEndpoint({
  id: 'audit.list',
  tag: 'Admin',
  summary: 'List the audit log, newest first',
  method: 'GET',
  path: '/api/admin/audit-logs',
  access: { panel: 'admin.read' },
  query: pageQuery(200).extend(auditFilter),
  response: z.array(AuditLog),
  paged: true,
  cached: true,
})
