import type { updateUser } from '../../../../shared/api/users.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { SERVER_PRESETS } from '../../../../shared/kernel/permission-presets.ts'
import { changes } from '../../../access/audit.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Tx } from '../../../db/db.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { endUserInvites } from '../auth/invite-tokens.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { endStaleSignIns } from '../auth/stale-sign-ins.ts'
import type { UserDeps } from './deps.ts'
import { ensureMayConfirm, ensureMaySetRoles, ensureRoles, mayConfirm, refuseTaken } from './new-user.ts'
import { ensureHoldsAllOf, ensureNotAbove } from './rank.ts'
import { replaceGrants } from './server-grants.ts'
import { findUser, type ShownUser } from './user-rows.ts'

type Body = Input<typeof updateUser>['body']

interface Edit {
  readonly userId: string
  readonly body: Body
  readonly passwordHash: string | undefined
}

/** Edits an account: fields, roles and grants within what the principal holds. A new password leaves a row of its own. */
export async function editUser(work: WorkOver<UserDeps>, one: Edit): Promise<Done & { answer: ShownUser }> {
  const { tx, deps } = work
  const { userId, body, passwordHash } = one
  const holder = await holderNow(work)
  const before = await present(tx, userId)
  await ensureNotAbove(tx, holder, userId)
  const newAddress = body.email !== undefined && body.email !== before.email
  if (passwordHash !== undefined || newAddress) await ensureHoldsAllOf(tx, holder, userId)
  const had = await serversOf(tx, userId)
  if (body.emailVerified === true && (newAddress || !before.emailVerified)) ensureMayConfirm(holder)
  // A new address is confirmed by a mail to it, unless the holder's word can stand for that.
  const emailVerified = body.emailVerified ?? (newAddress && !mayConfirm(holder) ? false : undefined)
  await writeFields(tx, before, { ...body, emailVerified }, passwordHash)
  if (newAddress) await endUserInvites(tx.q, userId)
  await writeRoles(tx, holder, before, body.roleIds)
  await writeGrants(tx, deps, { ...one, holder })
  const after = await present(tx, userId)
  const details = changes(audited(before, had), audited(after, await serversOf(tx, userId)))
  if (details !== undefined) {
    await tx.q.updateTable('user').set({ updatedAt: tx.now }).where('id', '=', userId).execute()
    await work.record({ audit: { resourceId: userId, details } })
  }
  if (passwordHash !== undefined) {
    await tx.q.deleteFrom('session').where('userId', '=', userId).execute()
    await endUserInvites(tx.q, userId)
    await endStaleSignIns(tx.q, userId)
    await work.record({ audit: { action: 'user.password_reset', resourceId: userId } })
  }
  if (details === undefined && passwordHash === undefined) return { answer: before }
  const change = [...Object.keys(details ?? {}), ...(passwordHash === undefined ? [] : ['password'])].join(',')
  const data = { userId, username: after.username, updatedBy: work.userId, change }
  tx.onCommit(() => deps.credentials.changed())
  return { answer: await present(tx, userId), events: [{ type: 'user_updated', data }] }
}

async function writeFields(
  tx: Tx,
  before: ShownUser,
  body: Omit<Body, 'emailVerified'> & { emailVerified: boolean | undefined },
  passwordHash: string | undefined,
): Promise<void> {
  const { email, username, firstName, lastName, emailVerified } = body
  const fields = {
    ...(email === undefined ? {} : { email }),
    ...(username === undefined ? {} : { username }),
    ...(firstName === undefined ? {} : { firstName }),
    ...(lastName === undefined ? {} : { lastName }),
    ...(emailVerified === undefined ? {} : { emailVerified: emailVerified ? (1 as const) : (0 as const) }),
    ...(passwordHash === undefined ? {} : { passwordHash }),
  }
  if (Object.keys(fields).length === 0) return
  await tx.q.updateTable('user').set(fields).where('id', '=', before.id).execute().catch(refuseTaken)
}

/** Replaces the roles; those that come and those that go must hold nothing beyond the holder. */
async function writeRoles(tx: Tx, holder: Holder, before: ShownUser, requested: Body['roleIds']): Promise<void> {
  if (requested === undefined) return
  const had = new Set(before.roles.map((role): string => role.id))
  const wanted = new Set<string>(requested)
  const added = [...wanted].filter((id) => !had.has(id))
  const removed = [...had].filter((id) => !wanted.has(id))
  ensureMaySetRoles(holder, [...added, ...removed])
  await ensureRoles(tx, holder, [...added, ...removed])
  for (const roleId of added) await tx.q.insertInto('userRole').values({ userId: before.id, roleId }).execute()
  if (removed.length === 0) return
  await tx.q.deleteFrom('userRole').where('userId', '=', before.id).where('roleId', 'in', removed).execute()
  await ensureAdminLeft(tx)
}

async function writeGrants(tx: Tx, deps: UserDeps, { userId, body, holder }: Edit & { holder: Holder }): Promise<void> {
  if (body.serverIds === undefined) {
    if (body.serverPermissions === undefined) return
    throw fieldError('body.serverPermissions', 'needs serverIds beside it')
  }
  const permissions = body.serverPermissions ?? [...SERVER_PRESETS.readOnly]
  await replaceGrants(tx, deps.clock, holder, { userId, serverIds: body.serverIds, permissions })
}

/** What the audit log compares. */
function audited(user: ShownUser, serverAccess: readonly string[]) {
  const { email, username, firstName, lastName, emailVerified } = user
  return {
    email,
    username,
    firstName,
    lastName,
    emailVerified,
    roles: user.roles.map(({ name }) => name),
    serverAccess,
  }
}

/** The account's grants, each as the server with what it may do there. */
async function serversOf(tx: Tx, userId: string): Promise<string[]> {
  const rows = await tx.q
    .selectFrom('serverAccess')
    .select(['serverId', 'permissions'])
    .where('userId', '=', userId)
    .orderBy('serverId')
    .execute()
  return rows.map(({ serverId, permissions }) => `${serverId} ${permissions}`)
}

async function present(tx: Tx, id: string): Promise<ShownUser> {
  const user = await findUser(tx.q, id, tx.now)
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${id}`)
  return user
}
