import * as api from '../../../../shared/api/auth.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Caller } from '../../../access/caller.ts'
import { type Done, operationsOver, recordChange, transact, type WorkOver } from '../../../access/operation.ts'
import type { NewEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { accountById, profileOf } from './accounts.ts'
import type { AccountDeps, SignInDeps } from './deps.ts'
import { forgetFailures } from './lockout.ts'
import { deleteOtherSessions, deleteOwnSession, listOwnSessions } from './sessions.ts'
import { checkPassword, refuseWithoutPassword } from './sign-in.ts'
import { endStaleSignIns } from './stale-sign-ins.ts'
import { wholeUser } from './whole-user.ts'

/** The account of the caller, what it may do, and the credential of this call. */
export async function getMe(deps: SignInDeps, _: Input<typeof api.getMe>, context: Context<typeof api.getMe>) {
  const caller = callerOf(context)
  const profile = await profileOf(deps.db.read, caller.userId)
  const { kind, credentialId: id, expiresAt } = caller
  return { ...profile, permissions: [...caller.permissions].sort(), credential: { kind, id, expiresAt } }
}

/** The credential ends in a transaction; then the browser forgets its cookie. */
export async function signOut(
  deps: AccountDeps,
  input: Input<typeof api.logout>,
  { principal, setSession }: Pick<Context, 'principal' | 'setSession'>,
): Promise<null> {
  await transact(logout, { deps, principal, input })
  setSession(null)
  return null
}

/** One page of the sessions of the caller; `current` is the one of this call. */
export async function listSessions(
  deps: AccountDeps,
  { query }: Input<typeof api.listSessions>,
  context: Context<typeof api.listSessions>,
) {
  const { userId, credentialId } = wholeUser(context)
  const { rows, total } = await listOwnSessions(deps.db.read, { userId, at: now(deps.clock), ...query })
  return { items: rows.map((row) => ({ ...row, current: row.id === credentialId })), total }
}

const operation = operationsOver<AccountDeps>()

export const logout = operation(api.logout, endCredential)

/** Ends the credential of the call itself: a session, or the API key. */
async function endCredential({ tx, deps, caller }: WorkOver<AccountDeps>): Promise<Done & { answer: null }> {
  const { kind, userId, credentialId } = callerOf({ caller })
  const events: NewEvent[] = []
  if (kind === 'session') await deleteOwnSession(tx.q, userId, credentialId)
  else events.push(...(await revokeKey(tx, { keyId: credentialId, userId })))
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: null,
    audit: { resource: kind === 'session' ? 'session' : 'apikey', resourceId: credentialId },
    events,
  }
}

async function revokeKey(tx: Tx, { keyId, userId }: { keyId: string; userId: string }): Promise<NewEvent[]> {
  const key = await tx.q.deleteFrom('apiKey').where('id', '=', keyId).returning('name').executeTakeFirst()
  if (key === undefined) return [] // revoked by somebody else at this moment
  return [{ type: 'api_key_deleted', data: { keyId, keyName: key.name, deletedBy: userId } }]
}

export const revokeSession = operation(api.revokeSession, async (work, { params: { sessionId } }) => {
  const { tx, deps, fail } = work
  const { userId } = wholeUser(work)
  if (!(await deleteOwnSession(tx.q, userId, sessionId))) fail('NOT_FOUND', 'There is no such session of yours')
  tx.onCommit(() => deps.credentials.changed())
  return { answer: null, audit: { resourceId: sessionId } }
})

export const revokeOtherSessions = operation(api.revokeOtherSessions, async (work) => {
  const { tx, deps } = work
  const { userId, credentialId } = wholeUser(work)
  const revoked = await deleteOtherSessions(tx, userId, credentialId)
  if (revoked === 0) return { answer: { revoked } }
  tx.onCommit(() => deps.credentials.changed())
  return { answer: { revoked }, audit: { resourceId: userId, details: { revoked } } }
})

/** Gives an account that signs in by other means its first password. */
export async function setPassword(
  deps: SignInDeps,
  { body }: Input<typeof api.setPassword>,
  context: Context<typeof api.setPassword>,
) {
  const caller = wholeUser(context)
  const newHash = await deps.passwords.hash(body.newPassword)
  await deps.db.write(async (tx) => {
    if (!(await replacePassword(tx, caller.userId, { from: null, to: newHash }))) {
      context.fail('CONFLICT', 'You have a password already; change it instead')
    }
    await leaveRow(deps, tx, context, caller)
  })
  return null
}

/** Changes the password; a wrong one counts as a failed sign-in, so it is more than one transaction. */
export async function changePassword(
  deps: SignInDeps,
  { body }: Input<typeof api.changePassword>,
  context: Context<typeof api.changePassword>,
) {
  const caller = wholeUser(context)
  const found = await accountById(deps.db.read, caller.userId)
  refuseWithoutPassword(found)
  const attempt = { account: found.email, origin: context.origin, found }
  return deps.turns.take(countedAddress(context.origin.ip), async () => {
    const account = await checkPassword(deps, attempt, body.currentPassword)
    const wrong = (): never => context.fail('INVALID_CREDENTIALS', 'The current password is wrong')
    if (account === undefined) return wrong()
    const newHash = await deps.passwords.hash(body.newPassword)
    await deps.db.write(async (tx) => {
      if (!(await replacePassword(tx, account.id, { from: account.passwordHash, to: newHash }))) wrong()
      await forgetFailures(tx.q, attempt)
      if (body.revokeOtherSessions) await deleteOtherSessions(tx, account.id, caller.credentialId)
      await leaveRow(deps, tx, context, caller)
    })
    return null
  })
}

/** Puts one password in the place of another; `false` when the old one is no longer the old one. */
async function replacePassword(tx: Tx, userId: string, hash: { from: string | null; to: string }): Promise<boolean> {
  const row = await tx.q
    .updateTable('user')
    .set({ passwordHash: hash.to, updatedAt: tx.now })
    .where('id', '=', userId)
    .where('passwordHash', hash.from === null ? 'is' : '=', hash.from)
    .executeTakeFirst()
  if (row.numUpdatedRows === 0n) return false
  await endStaleSignIns(tx.q, userId)
  return true
}

/** The audit row of a new password. The password was hashed before the transaction, which is the route's. */
async function leaveRow(
  deps: AccountDeps,
  tx: Tx,
  { principal }: Pick<Context, 'principal'>,
  { userId }: Caller,
): Promise<void> {
  await recordChange(tx, { deps, principal, endpoint: api.changePassword }, { audit: { resourceId: userId } })
  tx.onCommit(() => deps.credentials.changed())
}
