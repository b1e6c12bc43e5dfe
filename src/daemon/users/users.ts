import * as api from '../../shared/api/users.ts'
import type { Input } from '../../shared/contract.ts'
import { PanelError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import { grants } from '../../shared/permissions.ts'
import { now } from '../../shared/time.ts'
import { PermissionList, rolePermissions } from '../auth/credential-rows.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { insertUser } from '../auth/first-admin.ts'
import { ensureMayGrant } from '../auth/grant-cap.ts'
import type { Caller } from '../core/caller.ts'
import { type Tx, uniqueViolation } from '../core/db.ts'
import { parseJson } from '../core/json.ts'
import { type Context, callerOf, type Route, route } from '../core/route.ts'
import { findUser, listUserRows } from './user-rows.ts'

/** The routes of accounts. */
export function userRoutes(deps: AccountDeps): Route[] {
  return [
    route(api.listUsers, ({ query }) => listUserRows(deps.db.read, { ...query, at: now(deps.clock) })),
    route(api.getUser, async ({ params }, context) => {
      const user = await findUser(deps.db.read, params.userId, now(deps.clock))
      if (user === undefined) return context.fail('USER_NOT_FOUND', `There is no account ${params.userId}`)
      return { ...user, permissions: [...(await rolePermissions(deps.db.read, user.id))].sort() }
    }),
    route(api.createUser, async ({ body }, context) => {
      const caller = callerOf(context)
      if (body.roleIds.length > 0 && !grants(caller.permissions, 'user.set_roles')) {
        context.fail('PERMISSION_DENIED', 'Giving roles needs the permission user.set_roles', {
          missing: ['user.set_roles'],
        })
      }
      const passwordHash = await deps.passwords.hash(body.password)
      return deps.db.write(async (tx) => {
        const roleIds = [...new Set(body.roleIds)]
        await ensureRoles(deps, tx, caller, roleIds)
        return create(deps, tx, context, { body: { ...body, roleIds }, passwordHash })
      })
    }),
  ]
}

/** The roles exist, and hold nothing that the caller does not hold. */
async function ensureRoles(deps: AccountDeps, tx: Tx, caller: Caller, roleIds: readonly string[]): Promise<void> {
  if (roleIds.length === 0) return
  const roles = await tx.q.selectFrom('role').select(['id', 'permissions']).where('id', 'in', roleIds).execute()
  const known = new Set(roles.map((role) => role.id))
  const unknown = roleIds.find((id) => !known.has(id))
  if (unknown !== undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${unknown}`)
  const current = await deps.credentials.recheck(caller)
  if (typeof current === 'string') throw new PanelError('UNAUTHENTICATED', 'The credential is no longer valid')
  const given = roles.flatMap((role) => parseJson(PermissionList, role.permissions))
  await ensureMayGrant(tx.q, current, new Set(given))
}

async function create(
  deps: AccountDeps,
  tx: Tx,
  context: Context<typeof api.createUser>,
  { body, passwordHash }: { body: Input<typeof api.createUser>['body']; passwordHash: string },
) {
  const id = newId('usr', deps.clock)
  const { email, username, roleIds } = body
  const names = { firstName: body.firstName ?? null, lastName: body.lastName ?? null }
  try {
    await insertUser(tx, { id, email, username, passwordHash, ...names })
  } catch (error) {
    const taken = uniqueViolation(error)
    if (taken === undefined) throw error
    const field = taken.includes('email') ? 'e-mail address' : 'user name'
    return context.fail('USER_EXISTS', `This ${field} is taken`)
  }
  for (const roleId of roleIds) await tx.q.insertInto('userRole').values({ userId: id, roleId }).execute()
  const entry = { action: 'user.create', resource: 'user', resourceId: id, details: { email, username, roleIds } }
  await deps.audit.record(tx, context.actor, entry)
  const createdBy = callerOf(context).userId
  await deps.bus.append(tx, { type: 'user_created', data: { user: { id, email, username }, createdBy } })
  tx.onCommit(() => deps.credentials.changed())
  const user = await findUser(tx.q, id, tx.now)
  if (user === undefined) throw new Error('the account that was just made is not there')
  return user
}
