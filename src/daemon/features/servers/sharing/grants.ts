import * as api from '../../../../shared/api/access.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { SERVER_PRESETS } from '../../../../shared/kernel/permission-presets.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { permitServer, serverPermissions } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { refuseMissing, stillAllowed } from '../../accounts/auth/grant-cap.ts'
import { ensureMayGive } from '../../accounts/auth/server-cap.ts'
import { putGrant } from '../../accounts/users/server-grants.ts'
import { refuseSuspended } from '../servers/orders.ts'
import type { AccessDeps } from './deps.ts'

/** The routes of members of a server. */
export function grantRoutes(deps: AccessDeps): Route[] {
  return [
    route(api.getServerPresets, async () => ({
      readOnly: [...SERVER_PRESETS.readOnly],
      power: [...SERVER_PRESETS.power],
      full: [...SERVER_PRESETS.full],
    })),
    route(api.listServerAccess, async ({ params: { serverId }, query }) => {
      await ownerOf(deps.db.read, serverId)
      return listGrants(deps.db.read, serverId, query)
    }),
    setting(deps),
    removal(deps),
  ]
}

function setting(deps: AccessDeps): Route {
  return route(api.setServerAccess, ({ params: { serverId }, body }, context) => {
    const { targetUserId: userId, permissions } = body
    return deps.db.write(async (tx) => {
      const caller = await stillAllowed(deps.credentials, callerOf(context))
      const ownerId = await changeableOwnerOf(tx.q, serverId)
      if (ownerId === userId) context.fail('OWNER_IMMUTABLE', 'The owner has all permissions on his server')
      const expiresAt = endOf(body.expiresAt ?? null, tx.now)
      const before = await findGrant(tx.q, serverId, userId)
      // Who has more than the caller is above him: his grant stays as it is.
      const given = [...new Set([...permissions, ...(before?.permissions ?? [])])] as Permission[] // checked when they were written
      await permitServer(tx, caller, serverId, ['server.users'])
      await ensureHolds(tx, caller, serverId, given)
      await ensureMayGive(tx, caller, { serverId, permissions, expiresAt })
      const details = changes(
        { permissions: before?.permissions ?? [], expiresAt: before?.expiresAt ?? null },
        { permissions, expiresAt },
      )
      if (details === undefined && before !== undefined) return before
      const user = await tx.q.selectFrom('user').select('username').where('id', '=', userId).executeTakeFirst()
      if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
      await putGrant(tx, deps.clock, { serverId, userId, permissions, expiresAt })
      await record(deps, tx, context, serverId, {
        action: 'server.access_update',
        details: { userId, username: user.username, ...details },
      })
      const after = await findGrant(tx.q, serverId, userId)
      if (after === undefined) throw new Error('the grant that was just written is not there')
      return after
    })
  })
}

function removal(deps: AccessDeps): Route {
  return route(api.removeServerAccess, ({ params: { serverId, targetUserId: userId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = await stillAllowed(deps.credentials, callerOf(context))
      if ((await ownerOf(tx.q, serverId)) === userId) {
        context.fail('OWNER_IMMUTABLE', 'The owner cannot be removed; give the server to somebody else instead')
      }
      const own = userId === caller.userId && caller.scope === null
      if (!own) await permitServer(tx, caller, serverId, ['server.users'])
      const before = await findGrant(tx.q, serverId, userId)
      if (before === undefined) return context.fail('ACCESS_NOT_FOUND', 'The user has no grant on this server')
      if (!own) await ensureHolds(tx, caller, serverId, before.permissions as Permission[]) // checked when they were written
      await tx.q.deleteFrom('serverAccess').where('id', '=', before.id).execute()
      await record(deps, tx, context, serverId, {
        action: 'server.access_remove',
        details: { userId, username: before.user.username, permissions: before.permissions },
      })
      return null
    }),
  )
}

/** What the event of a server says of an action on its members. */
const CHANGES = {
  'server.access_remove': 'access_removed',
  'server.access_update': 'access_updated',
  'server.invite': 'invite_created',
  'server.invite_accept': 'invite_accepted',
  'server.invite_cancel': 'invite_cancelled',
} as const

/** Writes down and announces a change of a server's members; open streams are looked at again. */
export async function record(
  deps: Pick<AccessDeps, 'audit' | 'bus' | 'credentials'>,
  tx: Tx,
  { actor }: Pick<Context, 'actor'>,
  serverId: string,
  entry: { action: keyof typeof CHANGES; details: Readonly<Record<string, unknown>> },
): Promise<void> {
  await deps.audit.record(tx, actor, { ...entry, resource: 'server', resourceId: serverId })
  const updatedBy = actor.caller?.userId ?? actor.userId ?? null
  await deps.bus.append(tx, { type: 'server_updated', serverId, data: { updatedBy, change: CHANGES[entry.action] } })
  tx.onCommit(() => deps.credentials.changed())
}

/** The owner of the server; fails with SERVER_NOT_FOUND. */
export async function ownerOf(q: Queries, serverId: string): Promise<string> {
  const row = await q.selectFrom('server').select('ownerId').where('id', '=', serverId).executeTakeFirst()
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  return row.ownerId
}

/** The same where something is given away: a suspended server refuses that; rights can be taken back all the same. */
export async function changeableOwnerOf(q: Queries, serverId: string): Promise<string> {
  const row = await q
    .selectFrom('server')
    .select(['ownerId', 'suspendedAt', 'suspensionReason'])
    .where('id', '=', serverId)
    .executeTakeFirst()
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(row)
  return row.ownerId
}

async function ensureHolds(
  tx: Tx,
  caller: Parameters<typeof serverPermissions>[1],
  serverId: string,
  permissions: readonly Permission[],
): Promise<void> {
  const held = new Set(await serverPermissions(tx, caller, serverId, permissions))
  refuseMissing(permissions.filter((permission) => !held.has(permission)))
}

function endOf(text: string | null, now: IsoTime): IsoTime | null {
  if (text === null) return null
  const end = isoTime(Date.parse(text))
  if (end <= now) throw fieldError('body.expiresAt', 'must be in the future')
  return end
}

async function findGrant(q: Queries, serverId: string, userId: string) {
  const row = await selectGrants(q)
    .where('serverAccess.serverId', '=', serverId)
    .where('serverAccess.userId', '=', userId)
    .executeTakeFirst()
  return row === undefined ? undefined : shown(row)
}

async function listGrants(q: Queries, serverId: string, { page, limit }: { page: number; limit: number }) {
  const total = await countRows(q, q.selectFrom('serverAccess').where('serverId', '=', serverId))
  const rows = await selectGrants(q)
    .where('serverAccess.serverId', '=', serverId)
    .orderBy('serverAccess.id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return { items: rows.map(shown), total: total }
}

function selectGrants(q: Queries) {
  return q
    .selectFrom('serverAccess')
    .innerJoin('user', 'user.id', 'serverAccess.userId')
    .selectAll('serverAccess')
    .select(['user.email', 'user.username'])
}

type GrantRow = Awaited<ReturnType<ReturnType<typeof selectGrants>['executeTakeFirstOrThrow']>>

function shown({ email, username, ...row }: GrantRow) {
  const permissions = parseJson(PermissionList, row.permissions)
  return { ...row, permissions, user: { id: row.userId, email, username } }
}
