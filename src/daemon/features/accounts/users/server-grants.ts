import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { FilePaths } from '../../../../shared/kernel/file-paths.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import { readPaths, writtenPaths } from '../../../access/member-paths.ts'
import { type Holder, permitServer, serverPermissions } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { refuseMissing } from '../auth/grant-cap.ts'
import { ensureMayGive, ensureReaches } from '../auth/server-cap.ts'

/** A grant as it is written. */
export interface NewGrant {
  readonly serverId: string
  readonly userId: string
  readonly permissions: readonly string[]
  readonly filePaths: FilePaths | null
  readonly expiresAt: IsoTime | null
}

/** Writes a grant in the place of the one that the user had on the server. */
export async function putGrant(tx: Tx, clock: Clock, grant: NewGrant): Promise<void> {
  const { permissions, filePaths, expiresAt } = grant
  const values = {
    permissions: JSON.stringify(permissions),
    filePaths: writtenPaths(filePaths),
    expiresAt,
    updatedAt: tx.now,
  }
  const key = { id: newId('acc', clock), serverId: grant.serverId, userId: grant.userId, createdAt: tx.now }
  await tx.q
    .insertInto('serverAccess')
    .values({ ...key, ...values })
    .onConflict((conflict) => conflict.columns(['serverId', 'userId']).doUpdateSet(values))
    .execute()
}

/** What an administrator gives an account on servers. */
interface GrantRequest {
  readonly userId: string
  readonly serverIds: readonly string[]
  readonly permissions: readonly Permission[]
}

/**
 * Gives the account the permissions on these servers and nothing on others that it does not own: for each that changes the
 * caller must manage its members (`server.users`) and hold what is given, and what is taken. Its own servers are left out.
 */
export async function replaceGrants(tx: Tx, clock: Clock, caller: Holder, request: GrantRequest): Promise<void> {
  const { userId, permissions } = request
  const had = await tx.q
    .selectFrom('serverAccess')
    .select(['serverId', 'permissions', 'filePaths', 'expiresAt'])
    .where('userId', '=', userId)
    .execute()
  const wanted = new Set(request.serverIds)
  for (const row of had.filter((one) => !wanted.has(one.serverId))) {
    const { serverId } = row
    await permitServer(tx, caller, serverId, ['server.users'])
    await ensureHolds(tx, caller, row)
    await tx.q.deleteFrom('serverAccess').where('userId', '=', userId).where('serverId', '=', serverId).execute()
    await tx.q.deleteFrom('sftpToken').where('userId', '=', userId).where('serverId', '=', serverId).execute()
  }
  for (const serverId of wanted) {
    const server = await tx.q.selectFrom('server').select('ownerId').where('id', '=', serverId).executeTakeFirst()
    if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
    const before = had.find((row) => row.serverId === serverId)
    const ended = before !== undefined && before.expiresAt !== null && before.expiresAt <= tx.now
    if (server.ownerId === userId || (before?.permissions === JSON.stringify(permissions) && !ended)) continue
    await permitServer(tx, caller, serverId, ['server.users'])
    if (before !== undefined) await ensureHolds(tx, caller, before)
    // What somebody was held to stays, unless the grant was over.
    const filePaths = before === undefined || ended ? null : readPaths(before.filePaths)
    await ensureMayGive(tx, caller, { serverId, permissions, filePaths, expiresAt: null })
    await putGrant(tx, clock, { serverId, userId, permissions, filePaths, expiresAt: null })
  }
}

/** Who has more than the caller ranks above: their grant stays as it is. */
async function ensureHolds(
  tx: Tx,
  caller: Holder,
  {
    serverId,
    ...stored
  }: { readonly serverId: string; readonly permissions: string; readonly filePaths: string | null },
): Promise<void> {
  const given = parseJson(PermissionList, stored.permissions) as Permission[] // checked when they were written
  await ensureReaches(tx, caller, { serverId, permissions: given, filePaths: readPaths(stored.filePaths) })
  const held = new Set(await serverPermissions(tx, caller, serverId, given))
  refuseMissing(given.filter((permission) => !held.has(permission)))
}
