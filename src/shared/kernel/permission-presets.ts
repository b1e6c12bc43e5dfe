import type { Permission } from './permissions.ts'

const READ_ONLY = ['server.read', 'alert.read', 'console.read', 'file.read', 'database.read'] as const
const POWER = [
  ...READ_ONLY,
  'server.start',
  'server.stop',
  'server.install',
  'server.reinstall',
  'server.rebuild',
  'alert.create',
  'alert.update',
  'console.write',
  'file.write',
  'database.create',
  'database.rotate',
  'database.delete',
] as const

/** The sets that members of a server are usually given. */
export const SERVER_PRESETS = {
  readOnly: READ_ONLY,
  power: POWER,
  full: [...POWER, 'server.transfer', 'server.delete', 'alert.delete'],
} as const satisfies Record<string, readonly Permission[]>

/** The sets that roles usually get. */
export const ROLE_PRESETS = [
  { key: 'administrator', label: 'Administrator', description: 'May do everything', permissions: ['*'] },
  {
    key: 'moderator',
    label: 'Moderator',
    description: 'Looks after all servers and edits nodes',
    permissions: [
      'node.read',
      'node.update',
      'node.view_stats',
      'location.read',
      'template.read',
      'user.read',
      'server.read',
      'server.start',
      'server.stop',
      'file.read',
      'file.write',
      'console.read',
      'console.write',
      'alert.read',
      'alert.create',
      'alert.update',
      'alert.delete',
      'system_error.report',
    ],
  },
  {
    key: 'user',
    label: 'User',
    description: 'May use the servers that are theirs',
    permissions: ['system_error.report'],
  },
  {
    key: 'support',
    label: 'Support',
    description: 'Sees everything that helps to answer questions, and changes nothing',
    permissions: [
      'node.read',
      'node.view_stats',
      'location.read',
      'template.read',
      'server.read',
      'file.read',
      'console.read',
      'alert.read',
      'user.read',
      'system_error.report',
    ],
  },
] as const satisfies readonly {
  key: string
  label: string
  description: string
  permissions: readonly Permission[]
}[]
