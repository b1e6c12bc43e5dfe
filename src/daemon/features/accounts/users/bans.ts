import * as api from '../../../../shared/api/users.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import type { Tx } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { UserDeps } from './deps.ts'
import { ensureNotAbove } from './rank.ts'
import { findUser, type ShownUser } from './user-rows.ts'

/** The routes that ban accounts and lift bans and lockouts. */
export function banRoutes(deps: UserDeps): Route[] {
  const { db, audit, bus, credentials } = deps
  const changed = async (tx: Tx, user: ShownUser, updatedBy: string, change: string): Promise<void> => {
    await bus.append(tx, {
      type: 'user_updated',
      data: { userId: user.id, username: user.username, updatedBy, change },
    })
    tx.onCommit(() => credentials.changed())
  }
  return [
    route(api.banUser, ({ params: { userId }, body }, context) =>
      db.write(async (tx) => {
        const caller = await stillAllowed(credentials, callerOf(context))
        const user = await present(tx, userId)
        if (userId === caller.userId) return context.fail('USER_SELF_ACTION', 'You cannot ban yourself')
        await ensureNotAbove(tx, caller, userId)
        const reason = body.reason ?? null
        const expires = endOf(body.expiresAt ?? null, tx.now)
        if (user.banned && user.banReason === reason && user.banExpires === expires) return user
        await tx.q
          .updateTable('user')
          .set({ banned: 1, banReason: reason, banExpires: expires, updatedAt: tx.now })
          .where('id', '=', userId)
          .execute()
        await ensureAdminLeft(tx)
        await tx.q.deleteFrom('session').where('userId', '=', userId).execute()
        await tx.q.updateTable('apiKey').set({ enabled: 0, updatedAt: tx.now }).where('userId', '=', userId).execute()
        const details = { username: user.username, reason, expiresAt: expires }
        await audit.record(tx, context.actor, { action: 'user.ban', resource: 'user', resourceId: userId, details })
        await changed(tx, user, caller.userId, 'banned')
        return present(tx, userId)
      }),
    ),
    route(api.unbanUser, ({ params: { userId } }, context) =>
      db.write(async (tx) => {
        const caller = await stillAllowed(credentials, callerOf(context))
        const user = await present(tx, userId)
        await ensureNotAbove(tx, caller, userId)
        if (!user.banned) return user
        await tx.q
          .updateTable('user')
          .set({ banned: 0, banReason: null, banExpires: null, updatedAt: tx.now })
          .where('id', '=', userId)
          .execute()
        const details = { username: user.username, reason: user.banReason }
        await audit.record(tx, context.actor, { action: 'user.unban', resource: 'user', resourceId: userId, details })
        await changed(tx, user, caller.userId, 'unbanned')
        return present(tx, userId)
      }),
    ),
    route(api.unlockUser, ({ params: { userId } }, context) =>
      db.write(async (tx) => {
        const caller = await stillAllowed(credentials, callerOf(context))
        const user = await present(tx, userId)
        await ensureNotAbove(tx, caller, userId)
        const rows = await tx.q
          .deleteFrom('authLockout')
          .where('email', '=', user.email)
          .returning(['id', 'email', 'ipAddress', 'lockedUntil'])
          .execute()
        if (rows.length === 0) return null
        const details = { username: user.username, rows: rows.length }
        const entry = { action: 'auth_lockout.delete', resource: 'user', resourceId: userId, details }
        await audit.record(tx, context.actor, entry)
        const clearedBy = caller.userId
        for (const { id: lockoutId, email, ipAddress, lockedUntil } of rows) {
          if (lockedUntil === null) continue // counted failures that have locked nobody
          const data = { lockoutId, email, ipAddress, clearedBy }
          await bus.append(tx, { type: 'auth_lockout_cleared', data })
        }
        await changed(tx, user, clearedBy, 'unlocked')
        return null
      }),
    ),
  ]
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
