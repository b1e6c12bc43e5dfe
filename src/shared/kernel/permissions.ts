/** A category of the permission catalogue as `GET /api/admin/api-keys/permissions-catalog` answers it. */
export interface PermissionCategory {
  readonly id: string
  readonly label: string
  readonly description: string
  readonly permissions: readonly { readonly value: string; readonly label: string }[]
}

/** The whole catalogue. A permission that is not in it does not exist. */
export const PERMISSION_CATALOG = [
  {
    id: 'admin',
    label: 'Administration',
    description: 'The administration area as a whole',
    permissions: [
      { value: '*', label: 'Everything' },
      { value: 'admin.read', label: 'Read the administration area, audit log, errors and settings' },
      { value: 'admin.write', label: 'Change the administration area' },
      { value: 'system_error.report', label: 'Report errors of a client' },
    ],
  },
  {
    id: 'servers',
    label: 'Servers',
    description: 'Game servers and their lives',
    permissions: [
      { value: 'server.read', label: 'See servers, their usage and variables' },
      { value: 'server.create', label: 'Create servers' },
      { value: 'server.start', label: 'Start and (with server.stop) restart servers' },
      { value: 'server.stop', label: 'Stop and kill servers' },
      { value: 'server.delete', label: 'Delete servers' },
      { value: 'server.suspend', label: 'Suspend, unsuspend and archive servers' },
      { value: 'server.transfer', label: 'Move servers to another node or owner' },
      { value: 'server.schedule', label: 'Manage scheduled tasks' },
      { value: 'server.update', label: 'Edit servers and their variables' },
      { value: 'server.install', label: 'Run the installation' },
      { value: 'server.reinstall', label: 'Install again from scratch' },
      { value: 'server.rebuild', label: 'Recreate the container' },
      { value: 'server.users', label: 'Manage members and invites' },
    ],
  },
  {
    id: 'nodes',
    label: 'Nodes',
    description: 'The machines that host servers',
    permissions: [
      { value: 'node.read', label: 'See nodes' },
      { value: 'node.create', label: 'Add nodes' },
      { value: 'node.update', label: 'Edit nodes' },
      { value: 'node.rotate_key', label: 'Enrol agents; make, rotate and revoke the keys of nodes' },
      { value: 'node.delete', label: 'Delete nodes' },
      { value: 'node.view_stats', label: 'See the stats of nodes' },
      { value: 'node.manage_allocation', label: 'Manage addresses and ports' },
      { value: 'node.assign', label: 'Grant nodes to users and roles' },
    ],
  },
  {
    id: 'locations',
    label: 'Locations',
    description: 'Where nodes stand',
    permissions: [
      { value: 'location.read', label: 'See locations' },
      { value: 'location.create', label: 'Create locations' },
      { value: 'location.update', label: 'Edit locations' },
      { value: 'location.delete', label: 'Delete locations' },
    ],
  },
  {
    id: 'templates',
    label: 'Templates',
    description: 'What a server is made from',
    permissions: [
      { value: 'template.read', label: 'See nests and templates' },
      { value: 'template.create', label: 'Create nests and templates' },
      { value: 'template.update', label: 'Edit nests and templates' },
      { value: 'template.delete', label: 'Delete nests and templates' },
    ],
  },
  {
    id: 'users',
    label: 'Users',
    description: 'Accounts',
    permissions: [
      { value: 'user.read', label: 'See accounts' },
      { value: 'user.create', label: 'Create accounts' },
      { value: 'user.update', label: 'Edit accounts' },
      { value: 'user.delete', label: 'Delete accounts' },
      { value: 'user.ban', label: 'Ban accounts' },
      { value: 'user.unban', label: 'Lift bans' },
      { value: 'user.set_roles', label: 'Give and take roles' },
    ],
  },
  {
    id: 'roles',
    label: 'Roles',
    description: 'Named sets of permissions',
    permissions: [
      { value: 'role.read', label: 'See roles' },
      { value: 'role.create', label: 'Create roles' },
      { value: 'role.update', label: 'Edit roles' },
      { value: 'role.delete', label: 'Delete roles' },
    ],
  },
  {
    id: 'backups',
    label: 'Backups',
    description: 'Backups of servers',
    permissions: [
      { value: 'backup.read', label: 'See and download backups' },
      { value: 'backup.create', label: 'Create backups' },
      { value: 'backup.delete', label: 'Delete backups' },
      { value: 'backup.restore', label: 'Restore backups' },
    ],
  },
  {
    id: 'files',
    label: 'Files',
    description: 'The files of servers',
    permissions: [
      { value: 'file.read', label: 'Read files' },
      { value: 'file.write', label: 'Write files' },
      { value: 'file.sftp', label: 'Reach files by SFTP, as far as they may be read and written' },
    ],
  },
  {
    id: 'console',
    label: 'Console',
    description: 'The consoles of servers',
    permissions: [
      { value: 'console.read', label: 'Follow the console' },
      { value: 'console.write', label: 'Send commands' },
    ],
  },
  {
    id: 'databases',
    label: 'Databases',
    description: 'Databases of servers',
    permissions: [
      { value: 'database.read', label: 'See databases and their passwords' },
      { value: 'database.create', label: 'Create databases' },
      { value: 'database.delete', label: 'Delete databases' },
      { value: 'database.rotate', label: 'Rotate database passwords' },
    ],
  },
  {
    id: 'alerts',
    label: 'Alerts',
    description: 'Alerts and their rules',
    permissions: [
      { value: 'alert.read', label: 'See alerts' },
      { value: 'alert.create', label: 'Create alert rules' },
      { value: 'alert.update', label: 'Edit and resolve alerts' },
      { value: 'alert.delete', label: 'Delete alerts' },
    ],
  },
  {
    id: 'apikeys',
    label: 'API keys',
    description: 'Keys for scripts and integrations',
    permissions: [{ value: 'apikey.manage', label: 'Create, list, edit and revoke API keys' }],
  },
] as const satisfies readonly PermissionCategory[]

/** A dotted permission string of the catalogue, `*` included. */
export type Permission = (typeof PERMISSION_CATALOG)[number]['permissions'][number]['value']

/** Every permission of the catalogue. */
export const PERMISSIONS: readonly Permission[] = PERMISSION_CATALOG.flatMap((category) =>
  category.permissions.map((permission) => permission.value),
)

const known: ReadonlySet<string> = new Set(PERMISSIONS)

/** The permissions any of which opens the overview and the admin event stream. */
export const ANY_ADMIN_PERMISSION = [
  'admin.read',
  'admin.write',
  'user.read',
  'role.read',
  'node.read',
  'location.read',
  'template.read',
  'server.read',
  'apikey.manage',
] as const satisfies readonly Permission[]

/** What the owner of a server may do with it. */
export const OWNER_PERMISSIONS = [
  'server.read',
  'server.start',
  'server.stop',
  'server.install',
  'server.reinstall',
  'server.rebuild',
  'server.update',
  'server.users',
  'server.transfer',
  'server.delete',
  'server.schedule',
  'console.read',
  'console.write',
  'file.read',
  'file.write',
  'file.sftp',
  'backup.read',
  'backup.create',
  'backup.restore',
  'backup.delete',
  'database.read',
  'database.create',
  'database.rotate',
  'database.delete',
  'alert.read',
  'alert.create',
  'alert.update',
  'alert.delete',
] as const satisfies readonly Permission[]

/** What somebody may do with a node that is assigned to them, beside {@link OWNER_PERMISSIONS} on its servers. */
export const ASSIGNEE_PERMISSIONS = [
  'node.read',
  'node.view_stats',
  'server.create',
] as const satisfies readonly Permission[]

/** Whether the text may be granted: a permission of the catalogue, or one of them for a single resource (`server.read:ID`). */
export function isGrantable(text: string): boolean {
  const at = text.indexOf(':')
  if (at < 0) return known.has(text)
  return !text.startsWith('*') && known.has(text.slice(0, at)) && /^([A-Za-z0-9_-]{1,64}|\*)$/.test(text.slice(at + 1))
}

/**
 * Whether the held set grants `permission`, on the resource `id` if one is named: `*` grants everything,
 * `a.b` and `a.b:*` grant it on every resource, `a.b:ID` on that resource alone, `admin.write` implies `admin.read`.
 */
export function grants(held: ReadonlySet<string>, permission: Permission, id?: string): boolean {
  if (held.has('*') || held.has(permission) || held.has(`${permission}:*`)) return true
  if (id !== undefined && held.has(`${permission}:${id}`)) return true
  return permission === 'admin.read' && held.has('admin.write')
}

/** What everybody may pass on, because it gives no power over anything: the role User is nobody's to withhold. */
const FREELY_GIVEN: ReadonlySet<string> = new Set(['system_error.report'] satisfies readonly Permission[])

/** The permissions in `wanted` that the holder of `held` may not pass on: those that `held` does not cover. */
export function missingFrom(held: ReadonlySet<string>, wanted: Iterable<string>): string[] {
  return uncovered(held, wanted).filter((text) => !FREELY_GIVEN.has(text))
}

/** The permissions in `wanted` that `held` does not cover. Scoped ones count by their scope. */
export function uncovered(held: ReadonlySet<string>, wanted: Iterable<string>): string[] {
  return [...wanted].filter((text) => {
    const at = text.indexOf(':')
    const base = (at < 0 ? text : text.slice(0, at)) as Permission // callers have checked isGrantable
    const id = at < 0 || text.endsWith(':*') ? undefined : text.slice(at + 1)
    return !grants(held, base, id)
  })
}

/**
 * The two roles that setup creates. Rows of ownership carry a user's rights over servers, so User holds none of
 * those; what it holds opens nothing of anybody else.
 */
export const DEFAULT_ROLES = [
  { name: 'Administrator', description: 'May do everything', permissions: ['*'] },
  { name: 'User', description: 'May use the servers that are theirs', permissions: ['system_error.report'] },
] as const
