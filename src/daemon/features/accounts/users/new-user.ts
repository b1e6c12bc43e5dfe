import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { grants, type Permission } from '../../../../shared/kernel/permissions.ts'
import type { WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { NewEvent } from '../../../core/bus.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { insertUser } from '../auth/first-admin.ts'
import { ensureMayGrantForGood } from '../auth/grant-cap.ts'
import { assignmentsOfRoles, ensureMayAssign } from '../auth/node-cap.ts'
import type { UserDeps } from './deps.ts'
import { replaceGrants } from './server-grants.ts'
import { findUser, type ShownUser } from './user-rows.ts'

/** What a new account is made of. */
export interface NewUser {
  readonly email: string
  readonly username: string
  readonly passwordHash: string | null
  readonly firstName?: string | null | undefined
  readonly lastName?: string | null | undefined
  readonly emailVerified: boolean
  readonly roleIds: readonly string[]
  readonly serverIds: readonly string[]
  readonly serverPermissions: readonly Permission[]
}

/** Makes the account with roles and grants within what the holder holds. The audit row is left to the operation. */
export async function makeUser(
  { tx, deps, userId: createdBy }: Pick<WorkOver<Pick<UserDeps, 'clock' | 'credentials'>>, 'tx' | 'deps' | 'userId'>,
  holder: Holder,
  user: NewUser,
): Promise<{ user: ShownUser; event: NewEvent }> {
  const roleIds = [...new Set(user.roleIds)]
  await ensureRoles(tx, holder, roleIds)
  const id = newId('usr', deps.clock)
  const { email, username, passwordHash } = user
  const names = { firstName: user.firstName ?? null, lastName: user.lastName ?? null }
  await insertUser(tx, { id, email, username, passwordHash, ...names }).catch(refuseTaken)
  if (!user.emailVerified) await tx.q.updateTable('user').set({ emailVerified: 0 }).where('id', '=', id).execute()
  for (const roleId of roleIds) await tx.q.insertInto('userRole').values({ userId: id, roleId }).execute()
  const request = { userId: id, serverIds: user.serverIds, permissions: user.serverPermissions }
  await replaceGrants(tx, deps.clock, holder, request)
  const made = await findUser(tx.q, id, tx.now)
  if (made === undefined) throw new Error('the account that was just made is not there')
  tx.onCommit(() => deps.credentials.changed())
  return { user: made, event: { type: 'user_created', data: { user: made, createdBy } } }
}

/**
 * Whether the caller's word can stand for the mail that confirms an address. Whom an identity provider signs in gets into the
 * account with the same confirmed address, and brings their roles: who knows its password would have them too.
 */
export function mayConfirm(holder: Holder): boolean {
  return grants(holder.permissions, '*')
}

/** Refuses with PERMISSION_DENIED who may not. */
export function ensureMayConfirm(holder: Holder): void {
  if (mayConfirm(holder)) return
  throw new PanelError('PERMISSION_DENIED', 'Only who may do everything can say that an address is confirmed', {
    meta: { missing: ['*'] },
  })
}

/** Giving roles needs `user.set_roles` beside the permission of the route. */
export function ensureMaySetRoles(holder: Holder, roleIds: readonly string[] | undefined): void {
  if (roleIds === undefined || roleIds.length === 0 || grants(holder.permissions, 'user.set_roles')) return
  throw new PanelError('PERMISSION_DENIED', 'Giving and taking roles needs the permission user.set_roles', {
    meta: { missing: ['user.set_roles'] },
  })
}

/** The roles exist, and give nothing that the caller does not hold as long: no permissions, and no nodes. */
export async function ensureRoles(tx: Tx, holder: Holder, roleIds: readonly string[]): Promise<void> {
  if (roleIds.length === 0) return
  const roles = await tx.q.selectFrom('role').select(['id', 'permissions']).where('id', 'in', roleIds).execute()
  const known = new Set(roles.map((role) => role.id))
  const unknown = roleIds.find((id) => !known.has(id))
  if (unknown !== undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${unknown}`)
  const given = roles.flatMap((role) => parseJson(PermissionList, role.permissions))
  await ensureMayGrantForGood(tx, holder, new Set(given))
  for (const one of await assignmentsOfRoles(tx, roleIds)) await ensureMayAssign(tx, holder, one)
}

/** Turns the database's word on a taken address or name into USER_EXISTS. */
export function refuseTaken(error: unknown): never {
  const taken = uniqueViolation(error)
  if (taken === undefined) throw error
  throw new PanelError('USER_EXISTS', `This ${taken.includes('email') ? 'e-mail address' : 'user name'} is taken`)
}
