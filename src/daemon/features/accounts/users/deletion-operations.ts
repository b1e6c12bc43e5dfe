import * as api from '../../../../shared/api/users.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Done, operationsOver, type WorkOver } from '../../../access/operation.ts'
import { isForeignKeyViolation } from '../../../db/db.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { UserDeps } from './deps.ts'
import { handOver } from './ownership.ts'
import { ensureNotAbove } from './rank.ts'

const operation = operationsOver<UserDeps>()

export const deleteUser = operation(api.deleteUser, (work, { params, body }) => remove(work, { ...params, ...body }))

export const removeUser = operation(api.removeUser, (work, { params, query }) => remove(work, { ...params, ...query }))

interface Deletion {
  readonly userId: string
  readonly force: boolean
  readonly transferToUserId?: string | undefined
}

/** Sessions, keys, roles, grants, assignments and invitations go with the account; its servers have a new owner before. */
async function remove(work: WorkOver<UserDeps>, one: Deletion): Promise<Done & { answer: null }> {
  const { tx, deps } = work
  const { userId } = one
  const holder = await holderNow(work)
  const user = await tx.q.selectFrom('user').select(['email', 'username']).where('id', '=', userId).executeTakeFirst()
  if (user === undefined) throw new PanelError('USER_NOT_FOUND', `There is no account ${userId}`)
  if (userId === holder.userId) {
    throw new PanelError('USER_SELF_ACTION', 'You cannot delete your own account here')
  }
  await ensureNotAbove(tx, holder, userId)
  const owned = await tx.q
    .selectFrom('server')
    .select(['id', 'name', 'ownerId'])
    .where('ownerId', '=', userId)
    .orderBy('id')
    .execute()
  const heir = one.transferToUserId ?? (one.force ? (work.userId ?? undefined) : undefined)
  if (heir === userId) throw new PanelError('USER_SELF_ACTION', 'The servers cannot go to the account that is deleted')
  if (owned.length > 0 && heir === undefined) {
    const ownedServers = owned.slice(0, 100).map(({ id, name }) => ({ id, name }))
    throw new PanelError(
      'USER_OWNS_SERVERS',
      `The account owns ${owned.length} servers; say to whom they shall go (transferToUserId), or take them (force)`,
      { meta: { ownedServers, total: owned.length } },
    )
  }
  for (const server of owned) {
    const handover = { server, newOwnerId: heir ?? '', holder }
    const done = await handOver(work, handover).catch((error: unknown) => {
      if (!isForeignKeyViolation(error)) throw error
      throw new PanelError('USER_NOT_FOUND', `There is no account ${heir}`)
    })
    await work.record(done)
  }
  await tx.q.deleteFrom('user').where('id', '=', userId).execute()
  await ensureAdminLeft(tx)
  const details = { ...user, servers: owned.length, transferredTo: owned.length === 0 ? null : heir }
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: null,
    audit: { resourceId: userId, details },
    events: [{ type: 'user_deleted', data: { userId, ...user, deletedBy: work.userId } }],
  }
}
