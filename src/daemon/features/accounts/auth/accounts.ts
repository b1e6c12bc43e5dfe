import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import type { Queries } from '../../../db/db.ts'
import { avatarUrl } from './avatar-rows.ts'

/** What a sign-in looks at. */
export interface Account {
  readonly id: string
  readonly email: string
  readonly passwordHash: string | null
  readonly emailVerified: 0 | 1
  readonly banned: 0 | 1
  readonly banReason: string | null
  readonly banExpires: IsoTime | null
}

const ACCOUNT = ['id', 'email', 'passwordHash', 'emailVerified', 'banned', 'banReason', 'banExpires'] as const

/** The account with this e-mail address (in lower case) or user name. */
export async function findAccount(q: Queries, typed: string): Promise<Account | undefined> {
  return q
    .selectFrom('user')
    .select([...ACCOUNT])
    .where(typed.includes('@') ? 'email' : 'username', '=', typed)
    .executeTakeFirst()
}

/** The account by its id; UNAUTHENTICATED when it was deleted while its owner was signing in. */
export async function accountById(q: Queries, id: string): Promise<Account> {
  return q
    .selectFrom('user')
    .select([...ACCOUNT])
    .where('id', '=', id)
    .executeTakeFirstOrThrow(() => new PanelError('UNAUTHENTICATED', 'This account is gone: it was deleted just now'))
}

/** Whether a ban holds at this time. */
export function isBanned(row: { banned: 0 | 1; banExpires: IsoTime | null }, stamp: IsoTime): boolean {
  return row.banned === 1 && (row.banExpires === null || row.banExpires > stamp)
}

/** The name to show: first and last name, or the user name. */
export function displayName(row: { username: string; firstName: string | null; lastName: string | null }): string {
  const full = [row.firstName, row.lastName].filter((part) => part !== null && part !== '').join(' ')
  return full === '' ? row.username : full
}

/** The person behind an account as `Me` shows them; `permissions` are those of all their roles. */
export async function profileOf(q: Queries, userId: string) {
  const user = await q
    .selectFrom('user')
    .select(['id', 'email', 'username', 'firstName', 'lastName', 'createdAt'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  const role = await q
    .selectFrom('userRole')
    .innerJoin('role', 'role.id', 'userRole.roleId')
    .select('role.name')
    .where('userRole.userId', '=', userId)
    .orderBy('role.id')
    .executeTakeFirst()
  return {
    ...user,
    name: displayName(user),
    image: await avatarUrl(q, userId),
    role: role?.name ?? 'user',
    permissions: [...(await rolePermissions(q, userId))].sort(),
  }
}
