import * as api from '../../../../shared/api/users.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isForeignKeyViolation } from '../../../db/db.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { UserDeps } from './deps.ts'
import { handOver } from './ownership.ts'
import { ensureNotAbove } from './rank.ts'

/** The routes that delete accounts. */
export function deletionRoutes(deps: UserDeps): Route[] {
  return [
    route(api.deleteUser, ({ params, body }, context) => remove(deps, context, { ...params, ...body })),
    route(api.removeUser, ({ params, query }, context) => remove(deps, context, { ...params, ...query })),
  ]
}

interface Deletion {
  readonly userId: string
  readonly force: boolean
  readonly transferToUserId?: string | undefined
}

/** Sessions, keys, roles, grants, assignments and invitations go with the account; its servers have a new owner before. */
function remove(deps: UserDeps, context: Pick<Context, 'actor' | 'caller'>, one: Deletion): Promise<null> {
  const { userId } = one
  return deps.db.write(async (tx) => {
    const caller = await stillAllowed(deps.credentials, callerOf(context))
    const user = await tx.q.selectFrom('user').select(['email', 'username']).where('id', '=', userId).executeTakeFirst()
    if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
    if (userId === caller.userId) {
      throw new PanelError('USER_SELF_ACTION', 'You cannot delete your own account here')
    }
    await ensureNotAbove(tx, caller, userId)
    const owned = await tx.q
      .selectFrom('server')
      .select(['id', 'name', 'ownerId'])
      .where('ownerId', '=', userId)
      .orderBy('id')
      .execute()
    const heir = one.transferToUserId ?? (one.force ? caller.userId : undefined)
    if (heir === userId)
      throw new PanelError('USER_SELF_ACTION', 'The servers cannot go to the account that is deleted')
    if (owned.length > 0 && heir === undefined) {
      const ownedServers = owned.slice(0, 100).map(({ id, name }) => ({ id, name }))
      throw new PanelError(
        'USER_OWNS_SERVERS',
        `The account owns ${owned.length} servers; say to whom they shall go (transferToUserId), or take them (force)`,
        { meta: { ownedServers, total: owned.length } },
      )
    }
    for (const server of owned) {
      const handover = { server, newOwnerId: heir ?? '', caller, actor: context.actor }
      await handOver(tx, deps, handover).catch((error: unknown) => {
        if (!isForeignKeyViolation(error)) throw error
        throw new PanelError('USER_NOT_FOUND', `There is no account ${heir}`)
      })
    }
    await tx.q.deleteFrom('user').where('id', '=', userId).execute()
    await ensureAdminLeft(tx)
    const details = { ...user, servers: owned.length, transferredTo: owned.length === 0 ? null : heir }
    await deps.audit.record(tx, context.actor, { action: 'user.delete', resource: 'user', resourceId: userId, details })
    await deps.bus.append(tx, { type: 'user_deleted', data: { userId, ...user, deletedBy: caller.userId } })
    tx.onCommit(() => deps.credentials.changed())
    return null
  })
}
