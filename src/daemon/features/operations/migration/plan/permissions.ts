import type { Permission } from '../../../../../shared/kernel/permissions.ts'

/** What a right of the source is here. Never more than it names there. */
const RIGHTS: Readonly<Record<string, readonly Permission[]>> = {
  'websocket.connect': ['console.read'],
  'control.console': ['console.read', 'console.write'],
  'control.start': ['server.start'],
  'control.stop': ['server.stop'],
  'control.restart': ['server.start', 'server.stop'],
  'file.read': ['file.read'],
  'file.read-content': ['file.read'],
  'file.create': ['file.write'],
  'file.update': ['file.write'],
  'file.delete': ['file.write'],
  'file.archive': ['file.write'],
  'file.sftp': ['file.sftp'],
  'backup.create': ['backup.create'],
  'backup.read': ['backup.read'],
  'backup.download': ['backup.read'],
  'backup.delete': ['backup.delete'],
  'backup.restore': ['backup.restore'],
  'database.create': ['database.create'],
  'database.read': ['database.read'],
  'database.update': ['database.rotate'],
  'database.delete': ['database.delete'],
  'database.view_password': ['database.read'],
  'database.view-password': ['database.read'],
  'schedule.read': ['server.read'],
  'schedule.create': ['server.schedule'],
  'schedule.update': ['server.schedule'],
  'schedule.delete': ['server.schedule'],
  'allocation.read': ['server.read'],
  'startup.read': ['server.read'],
  'activity.read': ['server.read'],
}

/**
 * The rights of a sub-user here. Whoever was one could see the server, so `server.read` is always among them. `unmapped` are those that
 * have no counterpart, such as managing other sub-users.
 */
export function mappedPermissions(names: readonly string[]): {
  readonly permissions: readonly Permission[]
  readonly unmapped: readonly string[]
} {
  const permissions = new Set<Permission>(['server.read'])
  const unmapped: string[] = []
  for (const name of new Set(names)) {
    const found = Object.hasOwn(RIGHTS, name) ? RIGHTS[name] : undefined
    if (found === undefined) unmapped.push(name)
    else for (const one of found) permissions.add(one)
  }
  return { permissions: [...permissions].sort(), unmapped: unmapped.sort() }
}
