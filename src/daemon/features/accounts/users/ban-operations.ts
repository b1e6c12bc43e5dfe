import * as api from '../../../../shared/api/users.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import type { NewEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { UserDeps } from './deps.ts'
import { ensureNotAbove } from './rank.ts'
import { findUser, type ShownUser } from './user-rows.ts'

const operation = operationsOver<UserDeps>()

export const banUser = operation(api.banUser, async (work, { params: { userId }, body }) => {
  const { tx, fail } = work
  const holder = await holderNow(work)
  const user = await present(tx, userId)
  if (userId === holder.userId) return fail('USER_SELF_ACTION', 'You cannot ban yourself')
  await ensureNotAbove(tx, holder, userId)
  const reason = body.reason ?? null
  const expires = endOf(body.expiresAt ?? null, tx.now)
  if (user.banned && user.banReason === reason && user.banExpires === expires) return { answer: user }
  await tx.q
    .updateTable('user')
    .set({ banned: 1, banReason: reason, banExpires: expires, updatedAt: tx.now })
    .where('id', '=', userId)
    .execute()
  await ensureAdminLeft(tx)
  await tx.q.deleteFrom('session').where('userId', '=', userId).execute()
  await tx.q.deleteFrom('sftpToken').where('userId', '=', userId).execute()
  await tx.q.updateTable('apiKey').set({ enabled: 0, updatedAt: tx.now }).where('userId', '=', userId).execute()
  const details = { username: user.username, reason, expiresAt: expires }
  return {
    answer: await present(tx, userId),
    audit: { resourceId: userId, details },
    events: [changed(work, user, 'banned')],
  }
})

export const unbanUser = operation(api.unbanUser, async (work, { params: { userId } }) => {
  const { tx } = work
  const holder = await holderNow(work)
  const user = await present(tx, userId)
  await ensureNotAbove(tx, holder, userId)
  if (!user.banned) return { answer: user }
  await tx.q
    .updateTable('user')
    .set({ banned: 0, banReason: null, banExpires: null, updatedAt: tx.now })
    .where('id', '=', userId)
    .execute()
  const details = { username: user.username, reason: user.banReason }
  return {
    answer: await present(tx, userId),
    audit: { resourceId: userId, details },
    events: [changed(work, user, 'unbanned')],
  }
})

export const unlockUser = operation(api.unlockUser, async (work, { params: { userId } }) => {
  const { tx, userId: clearedBy } = work
  const holder = await holderNow(work)
  const user = await present(tx, userId)
  await ensureNotAbove(tx, holder, userId)
  const rows = await tx.q
    .deleteFrom('authLockout')
    .where('email', '=', user.email)
    .returning(['id', 'email', 'ipAddress', 'lockedUntil'])
    .execute()
  if (rows.length === 0) return { answer: null }
  const cleared = rows
    .filter(({ lockedUntil }) => lockedUntil !== null) // counted failures have locked nobody
    .map(({ id: lockoutId, email, ipAddress }): NewEvent => {
      return { type: 'auth_lockout_cleared', data: { lockoutId, email, ipAddress, clearedBy } }
    })
  return {
    answer: null,
    audit: { resourceId: userId, details: { username: user.username, rows: rows.length } },
    events: [...cleared, changed(work, user, 'unlocked')],
  }
})

/** The event of an account; what is cached of credentials is forgotten with the commit. */
function changed({ tx, deps, userId: updatedBy }: WorkOver<UserDeps>, user: ShownUser, change: string): NewEvent {
  tx.onCommit(() => deps.credentials.changed())
  return { type: 'user_updated', data: { userId: user.id, username: user.username, updatedBy, change } }
}

function endOf(text: string | null, now: IsoTime): IsoTime | null {
  if (text === null) return null
  const end = isoTime(Date.parse(text))
  if (end <= now) throw fieldError('body.expiresAt', 'must be in the future')
  return end
}

async function present(tx: Tx, id: string): Promise<ShownUser> {
  const user = await findUser(tx.q, id, tx.now)
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${id}`)
  return user
}
