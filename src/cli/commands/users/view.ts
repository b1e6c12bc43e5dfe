import type { User } from '../../../shared/api/users.ts'
import { column, type View, wide } from '../../kit/output/view.ts'

/** How accounts are shown. */
export const VIEW: View<User> = {
  id: (row) => row.id,
  name: (row) => row.username,
  columns: [
    column('USERNAME', (row) => row.username),
    column('EMAIL', (row) => row.email),
    column('ROLES', (row) => row.roles.map(({ name }) => name).join(',')),
    column('SERVERS', (row) => row.serverCount),
    column('SIGNED IN', (row) => ({ time: row.lastSuccessfulLogin })),
    column('ID', (row) => row.id),
    wide('NAME', (row) => row.name),
    wide('BANNED', (row) => row.banned),
    wide('BAN ENDS', (row) => ({ time: row.banExpires })),
    wide('LOCKED UNTIL', (row) => ({ time: row.lockedUntil })),
    wide('TWO-FACTOR', (row) => row.twoFactorEnabled),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

/** The account that a command is about. */
export const SUBJECT = { ref: 'user', param: 'userId' } as const
