import * as api from '../../../../shared/api/account-security.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { deleteOtherSessions } from '../auth/sessions.ts'
import { endStaleSignIns } from '../auth/stale-sign-ins.ts'
import { endTwoFactor } from '../auth/two-factor-rows.ts'
import type { UserDeps } from './deps.ts'
import { ensureHoldsAllOf, ensureNotAbove } from './rank.ts'
import { findUser, type ShownUser } from './user-rows.ts'

const operation = operationsOver<UserDeps>()

export const disableTwoFactorOfUser = operation(api.disableTwoFactorOfUser, async (work, { params: { userId } }) => {
  const { tx, fail } = work
  const holder = await holderNow(work)
  const user = await present(tx, userId)
  if (userId === holder.userId) {
    return fail('USER_SELF_ACTION', 'Disable your own second factor in your profile, with your password')
  }
  // Whoever knows the password is in with it: as with a new password, it takes all rights of the account.
  await ensureHoldsAllOf(tx, holder, userId)
  if (!(await endTwoFactor(tx.q, userId))) return { answer: user }
  await endStaleSignIns(tx.q, userId)
  const { username } = user
  const data = { userId, username, updatedBy: work.userId, change: 'two_factor_disabled' }
  return {
    answer: await present(tx, userId),
    audit: { resourceId: userId, details: { username } },
    events: [{ type: 'user_updated', data }],
  }
})

export const signUserOut = operation(api.signUserOut, async (work, { params: { userId } }) => {
  const { tx, deps } = work
  const holder = await holderNow(work)
  const user = await present(tx, userId)
  await ensureNotAbove(tx, holder, userId)
  await endStaleSignIns(tx.q, userId)
  const revoked = await deleteOtherSessions(tx, userId, null)
  if (revoked === 0) return { answer: { revoked } }
  tx.onCommit(() => deps.credentials.changed())
  return { answer: { revoked }, audit: { resourceId: userId, details: { username: user.username, revoked } } }
})

async function present(tx: Tx, id: string): Promise<ShownUser> {
  const user = await findUser(tx.q, id, tx.now)
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${id}`)
  return user
}
