import * as api from '../../../../shared/api/auth.ts'
import type { Endpoint } from '../../../../shared/kernel/contract.ts'
import { now } from '../../../../shared/kernel/time.ts'
import type { Caller } from '../../../access/caller.ts'
import type { Tx } from '../../../db/db.ts'
import { countedAddress } from '../../../http/counted-address.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { accountById, profileOf } from './accounts.ts'
import type { AccountDeps, SignInDeps } from './deps.ts'
import { forgetFailures } from './lockout.ts'
import { deleteOtherSessions, deleteOwnSession, listOwnSessions } from './sessions.ts'
import { checkPassword, refuseWithoutPassword } from './sign-in.ts'
import { endStaleSignIns } from './stale-sign-ins.ts'
import { wholeUser } from './whole-user.ts'

/** The routes of whoever is signed in: who he is, his sessions, his password. */
export function profileRoutes(deps: SignInDeps): Route[] {
  return [
    route(api.getMe, async (_, context) => {
      const caller = callerOf(context)
      const profile = await profileOf(deps.db.read, caller.userId)
      const { kind, credentialId: id, expiresAt } = caller
      return { ...profile, permissions: [...caller.permissions].sort(), credential: { kind, id, expiresAt } }
    }),
    route(api.logout, (_, context) => signOut(deps, context)),
    route(api.signOutAlias, (_, context) => signOut(deps, context)),
    ...sessionRoutes(deps),
    ...passwordRoutes(deps),
  ]
}

async function signOut(deps: AccountDeps, context: Context<Endpoint>): Promise<null> {
  const caller = callerOf(context)
  await deps.db.write(async (tx) => {
    if (caller.kind === 'session') await deleteOwnSession(tx.q, caller.userId, caller.credentialId)
    else await revokeKey(deps, tx, caller)
    const resource = caller.kind === 'session' ? 'session' : 'apikey'
    await deps.audit.record(tx, context.actor, { action: 'auth.logout', resource, resourceId: caller.credentialId })
    tx.onCommit(() => deps.credentials.changed())
  })
  context.setSession(null)
  return null
}

async function revokeKey(deps: AccountDeps, tx: Tx, { credentialId: keyId, userId }: Caller): Promise<void> {
  const key = await tx.q.deleteFrom('apiKey').where('id', '=', keyId).returning('name').executeTakeFirst()
  if (key === undefined) return // revoked by somebody else at this moment
  await deps.bus.append(tx, { type: 'api_key_deleted', data: { keyId, keyName: key.name, deletedBy: userId } })
}

function sessionRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listSessions, async ({ query }, context) => {
      const { userId, credentialId } = callerOf(context)
      const { rows, total } = await listOwnSessions(deps.db.read, { userId, at: now(deps.clock), ...query })
      return { items: rows.map((row) => ({ ...row, current: row.id === credentialId })), total }
    }),
    route(api.revokeSession, async ({ params }, context) => {
      const caller = wholeUser(context)
      await deps.db.write(async (tx) => {
        if (!(await deleteOwnSession(tx.q, caller.userId, params.sessionId))) {
          context.fail('NOT_FOUND', 'There is no such session of yours')
        }
        const entry = { action: 'auth.session_revoke', resource: 'session', resourceId: params.sessionId }
        await deps.audit.record(tx, context.actor, entry)
        tx.onCommit(() => deps.credentials.changed())
      })
      return null
    }),
    route(api.revokeOtherSessions, async (_, context) => {
      const caller = wholeUser(context)
      const revoked = await deps.db.write(async (tx) => {
        const count = await deleteOtherSessions(tx, caller.userId, caller.credentialId)
        if (count === 0) return count
        const entry = {
          action: 'auth.session_revoke',
          resource: 'user',
          resourceId: caller.userId,
          details: { revoked: count },
        }
        await deps.audit.record(tx, context.actor, entry)
        tx.onCommit(() => deps.credentials.changed())
        return count
      })
      return { revoked }
    }),
  ]
}

function passwordRoutes(deps: SignInDeps): Route[] {
  return [
    route(api.setPassword, async ({ body }, context) => {
      const caller = wholeUser(context)
      const newHash = await deps.passwords.hash(body.newPassword)
      await deps.db.write(async (tx) => {
        if (!(await replacePassword(tx, caller.userId, { from: null, to: newHash }))) {
          context.fail('CONFLICT', 'You have a password already; change it instead')
        }
        await recordChange(deps, tx, context, caller)
      })
      return null
    }),
    route(api.changePassword, async ({ body }, context) => {
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
          await recordChange(deps, tx, context, caller)
        })
        return null
      })
    }),
  ]
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

async function recordChange(
  deps: AccountDeps,
  tx: Tx,
  context: Pick<Context, 'actor'>,
  { userId }: Caller,
): Promise<void> {
  await deps.audit.record(tx, context.actor, { action: 'auth.password_change', resource: 'user', resourceId: userId })
  tx.onCommit(() => deps.credentials.changed())
}
