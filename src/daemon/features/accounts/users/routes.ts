import * as effectiveApi from '../../../../shared/api/effective-permissions.ts'
import * as api from '../../../../shared/api/users.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import type { Queries } from '../../../db/db.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { banUser, unbanUser, unlockUser } from './ban-operations.ts'
import { deleteUser, removeUser } from './deletion-operations.ts'
import type { UserDeps } from './deps.ts'
import { getEffectivePermissions } from './effective-permissions.ts'
import { acceptUserInvite, inviteUser } from './invites.ts'
import * as operations from './operations.ts'
import { disableTwoFactorOfUser, signUserOut } from './security-operations.ts'
import { findUser, listUserRows } from './user-rows.ts'

const MOST = 1000

/** The routes of accounts. */
export function userRoutes(deps: UserDeps): Route[] {
  return [
    route(api.listUsers, ({ query }) => listUserRows(deps.db.read, { ...query, at: now(deps.clock) })),
    route(api.getUser, async ({ params }, context) => {
      const user = await findUser(deps.db.read, params.userId, now(deps.clock))
      if (user === undefined) return context.fail('USER_NOT_FOUND', `There is no account ${params.userId}`)
      return { ...user, permissions: [...(await rolePermissions(deps.db.read, user.id))].sort() }
    }),
    route(api.getUserServers, async ({ params: { userId } }) => {
      await ensureUser(deps.db.read, userId)
      return { serverIds: await grantedIds(deps.db.read, userId), ownedServerIds: await ownedIds(deps.db.read, userId) }
    }),
    route(api.createUser, (input, { principal }) => operations.createUser(deps, principal, input)),
    route(api.inviteUser, (input, { principal, log, signal }) =>
      inviteUser({ ...deps, log }, { principal, input, signal }),
    ),
    route(api.acceptUserInvite, (input, context) => acceptUserInvite(deps, input, context)),
    route(api.updateUser, (input, { principal }) => operations.updateUser(deps, principal, input)),
    operate(deleteUser, deps),
    operate(removeUser, deps),
    operate(banUser, deps),
    operate(unbanUser, deps),
    operate(unlockUser, deps),
    operate(disableTwoFactorOfUser, deps),
    operate(signUserOut, deps),
    route(effectiveApi.getEffectivePermissions, (input, context) => getEffectivePermissions(deps, input, context)),
  ]
}

async function ensureUser(q: Queries, id: string): Promise<void> {
  const row = await q.selectFrom('user').select('id').where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${id}`)
}

async function grantedIds(q: Queries, userId: string): Promise<string[]> {
  const rows = await q
    .selectFrom('serverAccess')
    .select('serverId')
    .where('userId', '=', userId)
    .orderBy('serverId')
    .limit(MOST)
    .execute()
  return rows.map(({ serverId }) => serverId)
}

async function ownedIds(q: Queries, userId: string): Promise<string[]> {
  const rows = await q
    .selectFrom('server')
    .select('id')
    .where('ownerId', '=', userId)
    .orderBy('id')
    .limit(MOST)
    .execute()
  return rows.map(({ id }) => id)
}
