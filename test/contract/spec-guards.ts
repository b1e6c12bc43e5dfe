import { ANY_ADMIN_PERMISSION, type Permission } from '../../src/shared/kernel/permissions.ts'

/** Who may pass: everybody, whoever is signed in, or who holds one of these. */
export type Guard = 'public' | 'session' | readonly Permission[]

/** What a row of the specification is walked by. */
export interface RowWalk {
  readonly guard: Guard
  /** A query that the row must refuse; a body that is no object is refused by every row that has one. */
  readonly badQuery?: Readonly<Record<string, string>>
  /** A body whose permission can be told from it. */
  readonly body?: unknown
}

const KEYS: RowWalk = { guard: ['apikey.manage', 'admin.read'] }
const READ: RowWalk = { guard: ['admin.read'] }
const WRITE: RowWalk = { guard: ['admin.write'] }
const BAD_TIME = { from: 'yesterday' }

/** The guards of spec.md §4, its words made permissions by api.md §4.3 and §8 (decisions.md #18: "admin only" of each row). */
export const WALKS: Readonly<Record<string, RowWalk>> = {
  'GET /api/templates': { guard: ['template.read'] },
  'GET /api/nodes': { guard: ['node.read'] },
  'POST /api/servers': { guard: ['server.create', 'admin.write'] },
  'POST /api/servers/{serverId}/power': { guard: ['server.start'], body: { action: 'start' } },
  'GET /api/servers/{serverId}/backups': { guard: ['backup.read'] },
  'GET /api/servers/{serverId}/console/stream': { guard: ['console.read'] },
  'POST /api/servers/{serverId}/console/command': { guard: ['console.write'], body: { command: 'x' } },
  'GET /api/servers/{serverId}/events': { guard: ['server.read'] },
  'GET /api/settings/locale': { guard: 'public' },
  'POST /api/admin/api-keys': { guard: ['apikey.manage'] },
  'GET /api/admin/api-keys': KEYS,
  'DELETE /api/admin/api-keys/{id}': { guard: ['apikey.manage'] },
  'GET /api/admin/api-keys/my-permissions': KEYS,
  'GET /api/admin/api-keys/permissions-catalog': KEYS,
  'GET /api/admin/audit-logs': { ...READ, badQuery: BAD_TIME },
  'GET /api/admin/audit-logs/export': { ...WRITE, badQuery: BAD_TIME },
  'GET /api/admin/auth-lockouts': READ,
  'DELETE /api/admin/auth-lockouts/{lockoutId}': WRITE,
  'GET /api/admin/database-hosts': READ,
  'POST /api/admin/database-hosts': WRITE,
  'PUT /api/admin/database-hosts/{hostId}': WRITE,
  'DELETE /api/admin/database-hosts/{hostId}': WRITE,
  'GET /api/admin/database-hosts/{hostId}/ping': READ,
  'GET /api/admin/db-status': READ,
  'GET /api/admin/events': { guard: ANY_ADMIN_PERMISSION },
  'GET /api/admin/health': READ,
  'GET /api/admin/ip-pools': READ,
  'POST /api/admin/ip-pools': WRITE,
  'PUT /api/admin/ip-pools/{poolId}': WRITE,
  'DELETE /api/admin/ip-pools/{poolId}': WRITE,
  'GET /api/admin/localization-settings': READ,
  'PUT /api/admin/localization-settings': WRITE,
  'GET /api/admin/mod-manager': READ,
  'PUT /api/admin/mod-manager': WRITE,
  'GET /api/admin/nodes': { guard: ['node.read'] },
  'GET /api/admin/oidc-config': READ,
  'PATCH /api/admin/oidc-config': WRITE,
  'GET /api/admin/roles': { guard: ['role.read'] },
  'GET /api/admin/security-settings': READ,
  'PUT /api/admin/security-settings': WRITE,
  'GET /api/admin/servers': { guard: ['server.read'] },
  'POST /api/admin/servers/actions': {
    guard: ['server.start', 'server.stop', 'server.suspend', 'server.delete'],
  },
  'GET /api/admin/settings/file-tunnel-upload-limit': { guard: 'session' },
  'GET /api/admin/smtp': READ,
  'PUT /api/admin/smtp': WRITE,
  'GET /api/admin/stats': { guard: ANY_ADMIN_PERMISSION },
  'GET /api/admin/system-errors': { ...READ, badQuery: BAD_TIME },
  'GET /api/admin/system-errors/export': { ...READ, badQuery: BAD_TIME },
  'POST /api/admin/system-errors/{id}/resolve': WRITE,
  'POST /api/admin/system-errors/resolve-all': WRITE,
  'GET /api/admin/theme-settings': READ,
  'PATCH /api/admin/theme-settings': WRITE,
  'GET /api/admin/update/state': WRITE,
  'GET /api/admin/update/status': WRITE,
  'GET /api/admin/migration': WRITE,
  'GET /api/admin/migration/{jobId}': WRITE,
  'POST /api/admin/migration/{jobId}/cancel': WRITE,
  'POST /api/admin/migration/{jobId}/pause': WRITE,
  'POST /api/admin/migration/{jobId}/resume': WRITE,
  'POST /api/admin/migration/{jobId}/retry/{stepId}': WRITE,
  'GET /api/admin/migration/{jobId}/steps': WRITE,
  'GET /api/admin/migration/catalyst-nodes': WRITE,
  'POST /api/admin/migration/start': WRITE,
  'POST /api/admin/migration/test': WRITE,
}

/** Rows that are not built, by the work that they belong to. A row that is built must leave this list. */
export const NOT_BUILT: Readonly<Record<string, readonly string[]>> = {}
