import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { QueryBoolean } from '../kernel/page.ts'
import { ANY_ADMIN_PERMISSION } from '../kernel/permissions.ts'
import { ServerStatus } from '../kernel/server-life.ts'
import { IsoTime } from '../kernel/time.ts'

/** How much there is of what. */
export const AdminStats = z.object({
  users: z.int(),
  servers: z.int(),
  /** Servers that run. */
  activeServers: z.int(),
  /** How many servers have each status that at least one has. */
  serversByStatus: z.partialRecord(ServerStatus, z.int()),
  nodes: z.int(),
  onlineNodes: z.int(),
  /** System errors that nobody has resolved. */
  openErrors: z.int(),
  /** Alerts that are not resolved. */
  activeAlerts: z.int(),
  version: z.string(),
  startedAt: IsoTime,
  uptimeSeconds: z.int(),
})
export type AdminStats = z.infer<typeof AdminStats>

export const getAdminStats = defineEndpoint({
  id: 'overview.stats',
  tag: 'Admin',
  summary: 'Show how many users, servers and nodes there are',
  method: 'GET',
  path: '/api/admin/stats',
  access: { anyOf: ANY_ADMIN_PERMISSION },
  response: AdminStats,
})

/** Whether all is well; `problems` says in sentences what is not. Numbers of nodes are `null` while the database is away. */
export const AdminHealth = z.object({
  status: z.enum(['healthy', 'degraded']),
  database: z.enum(['connected', 'disconnected']),
  /** What the last use of the database has shown; `problems` says which disk or file it is. */
  storage: z.enum(['ok', 'unwritable', 'damaged']),
  nodes: z.object({
    total: z.int().nullable(),
    online: z.int(),
    /** Not connected, whatever the reason; those of `stale` are among them. */
    offline: z.int().nullable(),
    /** Not connected for more than five minutes. */
    stale: z.int().nullable(),
  }),
  problems: z.array(z.string()),
  version: z.string(),
  startedAt: IsoTime,
  uptimeSeconds: z.int(),
  timestamp: IsoTime,
})
export type AdminHealth = z.infer<typeof AdminHealth>

export const getAdminHealth = defineEndpoint({
  id: 'overview.health',
  tag: 'Admin',
  summary: 'Show whether the panel and its nodes are well',
  method: 'GET',
  path: '/api/admin/health',
  access: { panel: 'admin.read' },
  response: AdminHealth,
})

/** The rows of a table. Where there are more than lists count, `rows` is that many and `rowsIsCapped` stands there. */
const TableRows = z.object({ name: z.string(), rows: z.int(), rowsIsCapped: z.literal(true).optional() })

/** What the last check of the database file has found. */
export const DatabaseIntegrity = z.object({
  status: z.enum(['unchecked', 'checking', 'ok', 'damaged', 'failed']),
  /** What is damaged, twenty sentences at most, or why the check failed. */
  problems: z.array(z.string()),
  /** When the last finished check ended. */
  checkedAt: IsoTime.nullable(),
})
export type DatabaseIntegrity = z.infer<typeof DatabaseIntegrity>

/** The panel's own database; stats are `null` while it cannot be read. */
export const DbStatus = z.object({
  status: z.enum(['connected', 'disconnected']),
  engine: z.literal('sqlite'),
  version: z.string().nullable(),
  path: z.string(),
  sizeBytes: z.int().nullable(),
  /** The write-ahead log beside the file. */
  walSizeBytes: z.int().nullable(),
  pageSize: z.int().nullable(),
  pageCount: z.int().nullable(),
  freelistPages: z.int().nullable(),
  tables: z.array(TableRows),
  migrations: z.object({ applied: z.int(), pending: z.int(), latest: z.string() }).nullable(),
  integrity: DatabaseIntegrity,
  /** How long one read took. */
  latencyMs: z.number().nullable(),
})
export type DbStatus = z.infer<typeof DbStatus>

export const getDbStatus = defineEndpoint({
  id: 'overview.db_status',
  tag: 'Admin',
  summary: 'Show size, migrations and state of the database of the panel',
  method: 'GET',
  path: '/api/admin/db-status',
  access: { panel: 'admin.read' },
  /** `check=true` begins a check of the whole file, unless one has ended in the last minute; ask again until it has ended. */
  query: z.object({ check: QueryBoolean.optional() }),
  response: DbStatus,
})
