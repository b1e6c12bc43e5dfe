import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { ACTION_GATES, type ServerStatus } from '../../../../shared/kernel/server-life.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import type { Bus, NewEvent } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { releasePlace } from '../../fleet/nodes/pool-claims.ts'
import { emitState, finishCommand, stateUpdate } from './observe.ts'
import { addCommand, nextGeneration, type OrderDeps, pendingStatus, refuseSuspended } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { statusOf } from './view.ts'

/** How a deletion is requested. */
interface Removal {
  readonly serverId: string
  /** Forget it at once; the node deletes the files if it ever comes back. */
  readonly force: boolean
  readonly keepFiles: boolean
}

/** So many databases that stay are named in the audit log. */
const MOST_NAMED = 100

/** What deletions need. */
export type RemovalDeps = OrderDeps & {
  readonly bus: Bus
  readonly settings: Pick<Settings, 'get'>
  readonly beforeDelete: BeforeDelete
}

/** What belongs to servers elsewhere; called in the transaction that deletes a server's row, just before. */
export type BeforeDelete = readonly ((tx: Tx, serverId: string) => Promise<void>)[]

/**
 * Marks a server for deletion and queues the order for its node; the row goes when the node has confirmed. With `force` it
 * goes at once, also from a node that is away. What refuses has written nothing.
 */
export async function remove({ tx, deps, userId: deletedBy }: WorkOver<RemovalDeps>, removal: Removal): Promise<Done> {
  const found = await findServerRow(tx.q, removal.serverId)
  if (found === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  const spared = deps.settings.get('suspension.deletePolicy') === 'block'
  if (spared) refuseSuspended(found)
  // Where suspended servers may be deleted, what counts is what they would be otherwise.
  const row = { ...found, suspendedAt: null }
  const online = deps.isOnline(row.nodeId)
  const status = online ? await pendingStatus(tx, row) : statusOf(row)
  const allowed: readonly ServerStatus[] = ACTION_GATES.delete
  const lost = removal.force && !online
  if (!allowed.includes(status) && !lost) {
    const advice = status === 'unknown' && !online ? `wait for its node ${row.nodeName}, or force it` : 'stop it first'
    throw new PanelError('SERVER_INVALID_STATE', `A server that is ${status} cannot be deleted; ${advice}`, {
      meta: { currentStatus: status, allowed },
    })
  }
  const { force, keepFiles } = removal
  if (!force && (await isUnderWay(tx, row))) return {}
  const generation = await nextGeneration(tx, row, { desired: 'stopped', deletingAt: row.deletingAt ?? tx.now })
  if (force) await endQueued(tx, deps.bus, row)
  await addCommand(tx, deps, { row, generation, op: 'delete', args: { keepFiles, deletedBy } })
  const databasesLeft = await databasesThatStay(tx, row.id)
  const left = databasesLeft.length === 0 ? {} : { databasesLeft }
  const audit = { resourceId: row.id, details: { name: row.name, force, keepFiles, ...left } }
  if (force) return { audit, events: [await forget(tx, deps, row, deletedBy)] }
  const desired = { desired: 'stopped', deletingAt: row.deletingAt ?? tx.now, generation } as const
  return {
    audit,
    events: [
      { type: 'server_updated', serverId: row.id, data: { updatedBy: deletedBy, change: 'deleting' } },
      ...stateUpdate(found, { ...found, ...desired }),
    ],
  }
}

/** Names of those that the panel does not manage, which are forgotten with the server. */
async function databasesThatStay(tx: Tx, serverId: string): Promise<string[]> {
  const rows = await tx.q
    .selectFrom('serverDatabase')
    .select('name')
    .where('serverId', '=', serverId)
    .where('managed', '=', 0)
    .orderBy('name')
    .limit(MOST_NAMED)
    .execute()
  return rows.map(({ name }) => name)
}

/** Orders that have not left yet end with their server: its node may never come back to hear of them. */
async function endQueued(tx: Tx, bus: Bus, row: ServerRow): Promise<void> {
  const queued = await tx.q
    .selectFrom('command')
    .select('id')
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('op', '!=', 'delete')
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null)
    .execute()
  const error = { code: 'UNKNOWN_SERVER' as const, message: 'The server was deleted' }
  for (const { id: commandId } of queued) {
    await finishCommand(tx, bus, row.nodeId, { commandId, ok: false, noop: false, error })
  }
}

/** A second deletion is the same one, as long as the node has not said that it failed. */
async function isUnderWay(tx: Tx, row: ServerRow): Promise<boolean> {
  if (row.deletingAt === null) return false
  const open = await tx.q
    .selectFrom('command')
    .select('id')
    .where('nodeId', '=', row.nodeId)
    .where('serverId', '=', row.id)
    .where('op', '=', 'delete')
    .where('endedAt', 'is', null)
    .executeTakeFirst()
  return open !== undefined
}

const DeleteArgs = z.object({ deletedBy: z.string().nullable().optional() })

/** The node has deleted a server: nothing of it is left here but audit and events. */
export async function forgetDeleted(
  tx: Tx,
  deps: { readonly bus: Bus; readonly beforeDelete: BeforeDelete },
  command: { serverId: string; args: string },
): Promise<void> {
  const row = await findServerRow(tx.q, command.serverId)
  if (row === undefined || row.deletingAt === null) return
  const { deletedBy = null } = parseJson(DeleteArgs, command.args)
  await deps.bus.append(tx, await forget(tx, deps, row, deletedBy))
}

/** The node could not delete a server: it stays `deleting` with the reason, and may be deleted again. */
export async function reportUndeleted(tx: Tx, bus: Bus, serverId: string, reason: string): Promise<void> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined || row.deletingAt === null) return
  await tx.q.updateTable('server').set({ reason, updatedAt: tx.now }).where('id', '=', serverId).execute()
  await emitState(tx, bus, row, { ...row, reason })
}

/** Deletes the row, and answers the event of it. */
async function forget(
  tx: Tx,
  { beforeDelete }: { readonly beforeDelete: BeforeDelete },
  row: ServerRow,
  deletedBy: string | null,
): Promise<NewEvent> {
  for (const leave of beforeDelete) await leave(tx, row.id)
  await releasePlace(tx, row.id)
  await tx.q.deleteFrom('server').where('id', '=', row.id).execute()
  const data = { serverName: row.name, ownerId: row.ownerId, deletedBy }
  return { type: 'server_deleted', serverId: row.id, data }
}
