import * as api from '../../../../shared/api/access.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { FilePaths } from '../../../../shared/kernel/file-paths.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { readPaths, writtenPaths } from '../../../access/member-paths.ts'
import { type Done, operationsOver, type WorkOver } from '../../../access/operation.ts'
import { permitServer, serverPermissions } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import { holderNow, refuseMissing } from '../../accounts/auth/grant-cap.ts'
import { ensureMayGive, ensureReaches } from '../../accounts/auth/server-cap.ts'
import { putGrant } from '../../accounts/users/server-grants.ts'
import { refuseSuspended } from '../servers/orders.ts'
import type { AccessDeps } from './deps.ts'

/** One page of the members of a server. */
export async function listServerAccess(
  deps: AccessDeps,
  { params: { serverId }, query }: Input<typeof api.listServerAccess>,
) {
  await ownerOf(deps.db.read, serverId)
  return listGrants(deps.db.read, serverId, query)
}

const operation = operationsOver<AccessDeps>()

export const setServerAccess = operation(api.setServerAccess, async (work, { params: { serverId }, body }) => {
  const { tx, deps, fail } = work
  const { targetUserId: userId, permissions } = body
  const holder = await holderNow(work)
  const ownerId = await changeableOwnerOf(tx.q, serverId)
  if (ownerId === userId) fail('OWNER_IMMUTABLE', 'The owner has all permissions on the server')
  const expiresAt = endOf(body.expiresAt ?? null, tx.now)
  const before = await findGrant(tx.q, serverId, userId)
  // Who has more than the holder is above them: that grant stays as it is.
  const filePaths = body.filePaths === undefined ? (before?.filePaths ?? null) : normalPaths(body.filePaths)
  const given = [...new Set([...permissions, ...(before?.permissions ?? [])])] as Permission[] // checked when they were written
  await permitServer(tx, holder, serverId, ['server.users'])
  await ensureHolds(tx, holder, serverId, given)
  if (before !== undefined) await ensureReaches(tx, holder, grantOf(before))
  await ensureMayGive(tx, holder, { serverId, permissions, filePaths, expiresAt })
  const details = changes(
    {
      permissions: before?.permissions ?? [],
      filePaths: before?.filePaths ?? null,
      expiresAt: before?.expiresAt ?? null,
    },
    { permissions, filePaths, expiresAt },
  )
  if (details === undefined && before !== undefined) return { answer: before }
  const user = await tx.q.selectFrom('user').select('username').where('id', '=', userId).executeTakeFirst()
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
  await putGrant(tx, deps.clock, { serverId, userId, permissions, filePaths, expiresAt })
  const after = await findGrant(tx.q, serverId, userId)
  if (after === undefined) throw new Error('the grant that was just written is not there')
  const named = { userId, username: user.username, ...details }
  return { answer: after, ...memberChange(work, serverId, { change: 'access_updated', details: named }) }
})

export const removeServerAccess = operation(
  api.removeServerAccess,
  async (work, { params: { serverId, targetUserId: userId } }) => {
    const { tx, fail } = work
    const holder = await holderNow(work)
    if ((await ownerOf(tx.q, serverId)) === userId) {
      fail('OWNER_IMMUTABLE', 'The owner cannot be removed; give the server to somebody else instead')
    }
    const own = userId === holder.userId && holder.scope === null
    if (!own) await permitServer(tx, holder, serverId, ['server.users'])
    const before = await findGrant(tx.q, serverId, userId)
    if (before === undefined) return fail('ACCESS_NOT_FOUND', 'The user has no grant on this server')
    if (!own) {
      await ensureHolds(tx, holder, serverId, before.permissions as Permission[]) // checked when they were written
      await ensureReaches(tx, holder, grantOf(before))
    }
    await tx.q.deleteFrom('serverAccess').where('id', '=', before.id).execute()
    await tx.q.deleteFrom('sftpToken').where('userId', '=', userId).where('serverId', '=', serverId).execute()
    const details = { userId, username: before.user.username, permissions: before.permissions }
    return { answer: null, ...memberChange(work, serverId, { change: 'access_removed', details }) }
  },
)

/** What a change of a server's members leaves; open streams are looked at again after the commit. */
export function memberChange(
  { tx, deps, userId: updatedBy }: Pick<WorkOver<Pick<AccessDeps, 'credentials'>>, 'tx' | 'deps' | 'userId'>,
  serverId: string,
  { change, details }: { readonly change: string; readonly details: Readonly<Record<string, unknown>> },
): Done {
  tx.onCommit(() => deps.credentials.changed())
  return {
    audit: { resourceId: serverId, details },
    events: [{ type: 'server_updated', serverId, data: { updatedBy, change } }],
  }
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

function grantOf({ serverId, permissions, filePaths }: NonNullable<Awaited<ReturnType<typeof findGrant>>>) {
  return { serverId, permissions: permissions as Permission[], filePaths } // checked when they were written
}

/** Lists of nothing hold nobody. */
export function normalPaths(paths: FilePaths | null | undefined): FilePaths | null {
  return readPaths(writtenPaths(paths))
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
  return { ...row, permissions, filePaths: readPaths(row.filePaths), user: { id: row.userId, email, username } }
}
