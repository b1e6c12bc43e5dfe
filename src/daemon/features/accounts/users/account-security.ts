import * as api from '../../../../shared/api/account-security.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { deleteOtherSessions } from '../auth/sessions.ts'
import { endStaleSignIns } from '../auth/stale-sign-ins.ts'
import { endTwoFactor } from '../auth/two-factor-rows.ts'
import type { UserDeps } from './deps.ts'
import { ensureHoldsAllOf, ensureNotAbove } from './rank.ts'
import { findUser, type ShownUser } from './user-rows.ts'

/** The routes by which an administrator ends second factors and sessions of others. */
export function accountSecurityRoutes({ db, audit, bus, credentials }: UserDeps): Route[] {
  return [
    route(api.disableTwoFactorOfUser, ({ params: { userId } }, context) =>
      db.write(async (tx) => {
        const caller = await stillAllowed(credentials, callerOf(context))
        const user = await present(tx, userId)
        if (userId === caller.userId) {
          return context.fail('USER_SELF_ACTION', 'Disable your own second factor in your profile, with your password')
        }
        // Whoever knows the password is in with it: as with a new password, it takes all rights of the account.
        await ensureHoldsAllOf(tx, caller, userId)
        if (!(await endTwoFactor(tx.q, userId))) return user
        await endStaleSignIns(tx.q, userId)
        const details = { username: user.username }
        const entry = { action: 'auth.2fa_disable', resource: 'user', resourceId: userId, details }
        await audit.record(tx, context.actor, entry)
        const data = { userId, username: user.username, updatedBy: caller.userId, change: 'two_factor_disabled' }
        await bus.append(tx, { type: 'user_updated', data })
        return present(tx, userId)
      }),
    ),
    route(api.signUserOut, ({ params: { userId } }, context) =>
      db.write(async (tx) => {
        const caller = await stillAllowed(credentials, callerOf(context))
        const user = await present(tx, userId)
        await ensureNotAbove(tx, caller, userId)
        await endStaleSignIns(tx.q, userId)
        const revoked = await deleteOtherSessions(tx, userId, null)
        if (revoked === 0) return { revoked }
        const details = { username: user.username, revoked }
        const entry = { action: 'auth.session_revoke', resource: 'user', resourceId: userId, details }
        await audit.record(tx, context.actor, entry)
        tx.onCommit(() => credentials.changed())
        return { revoked }
      }),
    ),
  ]
}

async function present(tx: Tx, id: string): Promise<ShownUser> {
  const user = await findUser(tx.q, id, tx.now)
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${id}`)
  return user
}
