import * as api from '../../../../shared/api/roles.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { ensureRoles } from './new-user.ts'
import { ensureNotAbove } from './rank.ts'
import { findRole } from './role-rows.ts'

/** The routes that give roles to users and take them. */
export function memberRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.addRoleMember, ({ params }, context) =>
      changing(deps, context, { ...params, action: 'user.role_assign', change: 'role_assigned' }, async (tx) => {
        await tx.q
          .insertInto('userRole')
          .values(params)
          .execute()
          .catch((error: unknown) => {
            if (uniqueViolation(error) === undefined) throw error
            return context.fail('CONFLICT', 'The user has this role already')
          })
      }),
    ),
    route(api.removeRoleMember, ({ params }, context) =>
      changing(deps, context, { ...params, action: 'user.role_remove', change: 'role_removed' }, async (tx) => {
        const { numDeletedRows } = await tx.q
          .deleteFrom('userRole')
          .where('roleId', '=', params.roleId)
          .where('userId', '=', params.userId)
          .executeTakeFirst()
        if (numDeletedRows === 0n) context.fail('NOT_FOUND', 'The user does not have this role')
        await ensureAdminLeft(tx)
      }),
    ),
  ]
}

interface Change {
  readonly roleId: string
  readonly userId: string
  readonly action: string
  readonly change: string
}

function changing(
  deps: AccountDeps,
  context: Pick<Context, 'actor' | 'caller'>,
  { roleId, userId, action, change }: Change,
  work: (tx: Tx) => Promise<void>,
): Promise<null> {
  return deps.db.write(async (tx) => {
    const caller = await stillAllowed(deps.credentials, callerOf(context))
    const role = await findRole(tx.q, roleId)
    if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${roleId}`)
    const user = await tx.q.selectFrom('user').select('username').where('id', '=', userId).executeTakeFirst()
    if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
    await ensureRoles(tx, caller, [roleId])
    await ensureNotAbove(tx, caller, userId)
    await work(tx)
    const details = { roleId, role: role.name, username: user.username }
    await deps.audit.record(tx, context.actor, { action, resource: 'user', resourceId: userId, details })
    const data = { userId, username: user.username, updatedBy: caller.userId, change, roleId }
    await deps.bus.append(tx, { type: 'user_updated', data })
    tx.onCommit(() => deps.credentials.changed())
    return null
  })
}
