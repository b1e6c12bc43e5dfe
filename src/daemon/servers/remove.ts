import { PanelError } from '../../shared/errors.ts'
import { ACTION_GATES, type ServerStatus } from '../../shared/server-life.ts'
import type { Actor } from '../core/audit.ts'
import type { Bus } from '../core/bus.ts'
import type { Tx } from '../core/db.ts'
import { releaseAllocations } from '../nodes/allocation-claims.ts'
import { addCommand, nextGeneration, type OrderDeps, refuseSuspended } from './orders.ts'
import { findServerRow, type ServerRow } from './repo.ts'
import { statusOf } from './view.ts'

/** How a deletion is wished. */
interface Removal {
  readonly serverId: string
  /** Forget it at once; the node deletes the files if it ever comes back. */
  readonly force: boolean
  readonly keepFiles: boolean
  readonly actor: Actor
}

/**
 * Marks a server for deletion and tells its node; the row goes when the node has confirmed. With `force` it goes at once,
 * also from a node that is away.
 */
export function removeServer(deps: OrderDeps & { readonly bus: Bus }, removal: Removal): Promise<void> {
  return deps.db.write(async (tx) => {
    const row = await findServerRow(tx.q, removal.serverId)
    if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
    refuseSuspended(row)
    const status = statusOf(row)
    const allowed: readonly ServerStatus[] = ACTION_GATES.delete
    const lost = removal.force && !deps.isOnline(row.nodeId)
    if (!allowed.includes(status) && !lost) {
      throw new PanelError('SERVER_INVALID_STATE', `A server that is ${status} cannot be deleted; stop it first`, {
        meta: { currentStatus: status, allowed },
      })
    }
    const generation = await nextGeneration(tx, row, { desired: 'stopped', deletingAt: row.deletingAt ?? tx.now })
    const { force, keepFiles } = removal
    await addCommand(tx, deps, { row, generation, op: 'delete', args: { keepFiles } })
    await deps.audit.record(tx, removal.actor, {
      action: 'server.delete',
      resource: 'server',
      resourceId: row.id,
      details: { name: row.name, force, keepFiles },
    })
    const deletedBy = removal.actor.caller?.userId ?? null
    if (force) await forget(tx, deps.bus, row, deletedBy)
    else
      await deps.bus.append(tx, {
        type: 'server_updated',
        serverId: row.id,
        data: { updatedBy: deletedBy, change: 'deleting' },
      })
  })
}

/** The node has deleted a server: nothing of it is left here but audit and events. */
export async function forgetDeleted(tx: Tx, bus: Bus, serverId: string): Promise<void> {
  const row = await findServerRow(tx.q, serverId)
  if (row !== undefined && row.deletingAt !== null) await forget(tx, bus, row, null)
}

async function forget(tx: Tx, bus: Bus, row: ServerRow, deletedBy: string | null): Promise<void> {
  await releaseAllocations(tx, row.id)
  await tx.q.deleteFrom('server').where('id', '=', row.id).execute()
  await bus.append(tx, { type: 'server_deleted', serverId: row.id, data: { serverName: row.name, deletedBy } })
}
