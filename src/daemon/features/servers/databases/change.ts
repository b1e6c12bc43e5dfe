import { deleteServerDatabase } from '../../../../shared/api/databases.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Principal, recordChange, userIdOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow } from '../servers/rows.ts'
import { findShown, move, type ShownRow } from './database-rows.ts'
import type { DatabaseWork } from './database-work.ts'
import type { DatabaseDeps } from './deps.ts'
import { HostFailure } from './host-failure.ts'
import { databasePlace, newPassword } from './secrets.ts'
import { finish } from './unfinished-work.ts'

/** Which database of which server, and for whom. */
interface ChangeRequest {
  readonly serverId: string
  readonly databaseId: string
  readonly principal: Principal
}

type Deps = DatabaseDeps & { readonly work: DatabaseWork }

/**
 * Sets a new password. When the host has certainly not taken it, the old one stays. When nobody knows, a job goes on until
 * the new one holds.
 */
export function rotatePassword(deps: Deps, request: ChangeRequest): Promise<void> {
  const { db, vault, work } = deps
  const { databaseId: id, principal } = request
  return work.hold(id, async () => {
    const row = await db.write(async (tx) => {
      const found = await changeable(tx, request)
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

/** Removes a database with all its data. When its host is away, the request stands, and a job goes on until it is gone. */
export function removeDatabase(deps: Deps, request: ChangeRequest): Promise<void> {
  const { db, work } = deps
  const { databaseId: id, serverId, principal } = request
  return work.hold(id, async () => {
    const row = await db.write(async (tx) => {
      const found = await present(tx, request)
      if (found.state === 'deleting') return found // a repetition of what has been requested and written down
      await move(tx, id, ['ready', 'rotating'], { state: 'deleting', requestedBy: userIdOf(principal) })
      await work.finishAt(tx, id, tx.now)
      const details = { serverId, name: found.name, hostId: found.hostId, hostName: found.hostName }
      const by = { deps, principal, endpoint: deleteServerDatabase }
      await recordChange(tx, by, { audit: { resourceId: id, details } })
      return found
    })
    await finish(deps, id, { principal }).catch((failure: unknown) => {
      if (!(failure instanceof HostFailure)) throw failure
      const sentence = `The database could not be removed from ${row.hostName} yet: ${failure.message}. It is tried again by itself.`
      throw refusal(row, sentence, failure)
    })
  })
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
