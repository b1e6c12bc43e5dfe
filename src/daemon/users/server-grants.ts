import { PanelError } from '../../shared/errors.ts'
import { newId } from '../../shared/ids.ts'
import type { Permission } from '../../shared/permissions.ts'
import type { Clock, IsoTime } from '../../shared/time.ts'
import { ensureMayGive } from '../auth/server-cap.ts'
import type { Tx } from '../core/db.ts'
import { type Holder, permitServer } from '../core/permit.ts'

/** A grant as it is written. */
export interface NewGrant {
  readonly serverId: string
  readonly userId: string
  readonly permissions: readonly string[]
  readonly expiresAt: IsoTime | null
}

/** Writes a grant in the place of the one that the user had on the server. */
export async function putGrant(tx: Tx, clock: Clock, grant: NewGrant): Promise<void> {
  const values = { permissions: JSON.stringify(grant.permissions), expiresAt: grant.expiresAt, updatedAt: tx.now }
  const key = { id: newId('acc', clock), serverId: grant.serverId, userId: grant.userId, createdAt: tx.now }
  await tx.q
    .insertInto('serverAccess')
    .values({ ...key, ...values })
    .onConflict((conflict) => conflict.columns(['serverId', 'userId']).doUpdateSet(values))
    .execute()
}

/** What an administrator wishes an account to have on servers. */
interface Wish {
  readonly userId: string
  readonly serverIds: readonly string[]
  readonly permissions: readonly Permission[]
}

/**
 * Gives the account the permissions on these servers and nothing on others that it does not own: for each that changes the
 * caller must manage its members (`server.users`) and hold what he gives. Its own servers are left out.
 */
export async function replaceGrants(tx: Tx, clock: Clock, caller: Holder, wish: Wish): Promise<void> {
  const { userId, permissions } = wish
  const had = await tx.q
    .selectFrom('serverAccess')
    .select(['serverId', 'permissions'])
    .where('userId', '=', userId)
    .execute()
  const wanted = new Set(wish.serverIds)
  for (const { serverId } of had.filter((row) => !wanted.has(row.serverId))) {
    await permitServer(tx, caller, serverId, ['server.users'])
    await tx.q.deleteFrom('serverAccess').where('userId', '=', userId).where('serverId', '=', serverId).execute()
  }
  for (const serverId of wanted) {
    const server = await tx.q.selectFrom('server').select('ownerId').where('id', '=', serverId).executeTakeFirst()
    if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
    const before = had.find((row) => row.serverId === serverId)
    if (server.ownerId === userId || before?.permissions === JSON.stringify(permissions)) continue
    await permitServer(tx, caller, serverId, ['server.users'])
    await ensureMayGive(tx, caller, { serverId, permissions, expiresAt: null })
    await putGrant(tx, clock, { serverId, userId, permissions, expiresAt: null })
  }
}
