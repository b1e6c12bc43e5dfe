import { deleteServerDatabase } from '../../../../shared/api/databases.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { type AuditRow, type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow } from '../servers/rows.ts'
import { findShown, forget, move, type ShownRow } from './database-rows.ts'
import type { DatabaseWork } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import { HostFailure } from './host-failure.ts'
import { databasePlace, newPassword } from './secrets.ts'
import { finish } from './unfinished-work.ts'

/** Which database of which server, and for whom. */
export interface ChangeRequest {
  readonly serverId: string
  readonly databaseId: string
  readonly principal: Principal
}

type Deps = DatabaseDeps & { readonly work: DatabaseWork }

/**
 * Sets a new password. When the host has certainly not taken it, the old one stays. When nobody knows, a job goes on until
 * the new one holds. One that the panel does not manage takes `force`: whoever else uses it knows only the old one.
 */
export function rotatePassword(deps: Deps, request: ChangeRequest & { readonly force: boolean }): Promise<void> {
  const { db, vault, work } = deps
  const { databaseId: id, principal } = request
  return work.hold(id, async () => {
    const row = await db.write(async (tx) => {
      const found = await changeable(tx, request)
      if (!request.force) refuseUnmanaged(found, 'nobody who uses it elsewhere gets in by the old password then')
      const pendingPassword = vault.seal(databasePlace(id), newPassword())
      await move(tx, id, ['ready'], { state: 'rotating', pendingPassword, requestedBy: userIdOf(principal) })
      await work.finishAt(tx, id, tx.now)
      return found
    })
    await finish(deps, id, { principal }).catch(async (failure: unknown) => {
      if (!(failure instanceof HostFailure)) throw failure
      if (failure.undone) {
        const asBefore = { state: 'ready', pendingPassword: null, lastError: null } as const
        await db.write(async (tx) => {
          if (await move(tx, id, ['rotating'], asBefore)) await work.finished(tx, id)
        })
      }
      const left = failure.undone ? 'The old one is still good.' : 'The panel goes on until the new one holds.'
      throw refusal(row, `The password was not set on ${row.hostName}: ${failure.message}. ${left}`, failure)
    })
  })
}

/**
 * Removes a database with all its data. When its host is away, the request stands, and a job goes on until it is gone. One that the panel
 * does not manage is forgotten, and its host hears nothing of it, unless it is to be dropped all the same. Answers whether it was dropped.
 */
export function removeDatabase(
  deps: Deps,
  request: ChangeRequest & { readonly drop: boolean | undefined },
): Promise<{ dropped: boolean }> {
  const { db, work } = deps
  const { databaseId: id, principal, drop } = request
  return work.hold(id, async () => {
    const row = await db.write(async (tx) => {
      const found = await present(tx, request)
      if (found.managed === 1 && drop === false) {
        throw fieldError(
          'query.drop',
          'must not be false for a database that the panel manages, which is always dropped',
        )
      }
      if (found.state === 'deleting' && found.managed === 1) return found // a repetition of what has been requested and written down
      if (found.managed === 1 || drop === true) return beginDrop(tx, deps, found, principal)
      await forgetUnmanaged(tx, deps, found, principal)
      return undefined
    })
    if (row === undefined) return { dropped: false }
    await finish(deps, id, { principal }).catch((failure: unknown) => {
      if (!(failure instanceof HostFailure)) throw failure
      const sentence = `The database could not be removed from ${row.hostName} yet: ${failure.message}. It is tried again by itself.`
      throw refusal(row, sentence, failure)
    })
    return { dropped: true }
  })
}

/** Has a database removed from its host by its job, or by whoever holds it. What is dropped is the panel's own from here on. */
export async function beginDrop<R extends Pick<ShownRow, 'id' | 'serverId' | 'name' | 'hostId' | 'hostName'>>(
  tx: Tx,
  deps: Deps,
  row: R,
  principal: Principal,
): Promise<R> {
  const asked = { state: 'deleting', managed: 1, requestedBy: userIdOf(principal) } as const
  await move(tx, row.id, ['ready', 'rotating', 'deleting'], asked)
  await deps.work.finishAt(tx, row.id, tx.now)
  const by = { deps, principal, endpoint: deleteServerDatabase }
  await recordChange(tx, by, { audit: deletion(row, true) })
  return row
}

/** Takes a database that is not the panel's out of its records, and leaves it where it lies. */
export async function forgetUnmanaged(
  tx: Tx,
  deps: Deps,
  row: Pick<ShownRow, 'id' | 'serverId' | 'name' | 'hostId' | 'hostName'>,
  principal: Principal,
): Promise<void> {
  if (!(await forget(tx, row.id, ['ready', 'rotating', 'deleting']))) return
  await deps.work.finished(tx, row.id)
  const by = { deps, principal, endpoint: deleteServerDatabase }
  const named = { databaseId: row.id, databaseName: row.name, deletedBy: userIdOf(principal) }
  const server = row.serverId === null ? {} : { serverId: row.serverId }
  const events = [{ type: 'database_deleted', ...server, data: { ...named, dropped: false } }] as const
  await recordChange(tx, by, { audit: deletion(row, false), events })
}

function deletion(
  { id, serverId, name, hostId, hostName }: Pick<ShownRow, 'id' | 'serverId' | 'name' | 'hostId' | 'hostName'>,
  dropped: boolean,
): AuditRow {
  return { resourceId: id, details: { serverId, name, hostId, hostName, dropped } }
}

/** Refuses what would change a database that others use, who do not know of it. */
export function refuseUnmanaged({ name, managed }: Pick<ShownRow, 'name' | 'managed'>, why: string): void {
  if (managed === 1) return
  const sentence = `This panel does not manage the database ${name}: ${why}. Adopt it once it is used from here alone, or force it`
  throw new PanelError('DATABASE_NOT_MANAGED', sentence)
}

async function present(tx: Tx, { serverId, databaseId }: ChangeRequest): Promise<ShownRow> {
  const server = await findServerRow(tx.q, serverId)
  if (server === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  refuseSuspended(server)
  const row = await findShown(tx.q, serverId, databaseId)
  if (row === undefined) throw new PanelError('DATABASE_NOT_FOUND', 'This server has no such database')
  return row
}

async function changeable(tx: Tx, request: ChangeRequest): Promise<ShownRow> {
  const row = await present(tx, request)
  if (row.state === 'ready') return row
  throw new PanelError('CONFLICT', `This database is ${row.state}; its host has not finished that`, {
    meta: { state: row.state },
  })
}

function refusal(row: ShownRow, sentence: string, { reason }: HostFailure): PanelError {
  return new PanelError('DATABASE_PROVISION_FAILED', sentence, { meta: { reason, hostId: row.hostId } })
}
