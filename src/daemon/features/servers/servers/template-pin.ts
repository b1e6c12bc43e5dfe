import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import type { Bus } from '../../../core/bus.ts'
import { replaceQueuedApplies } from './edit.ts'
import { addCommand, nextGeneration, type OrderDeps, refuseSuspended } from './orders.ts'
import { findServerRow, type ServerRow } from './rows.ts'
import { definitionOf } from './view.ts'

type Work = WorkOver<OrderDeps & { readonly bus: Bus }>

/**
 * Keeps the template of a server as it is now. A server that has one already keeps that, unless it is to be refreshed. Leaves nothing
 * when nothing changes.
 */
export async function pin(
  work: Work,
  { serverId, refresh }: { readonly serverId: string; readonly refresh: boolean },
): Promise<Done> {
  const row = await pinnable(work, serverId)
  if (row.pinnedTemplate !== null && (!refresh || row.pinnedTemplate === row.currentDefinition)) return {}
  return keep(work, row, { pinnedTemplate: row.currentDefinition, pinnedAt: work.tx.now })
}

/** Lets edits of the template reach a server again; leaves nothing for one that is not pinned. */
export async function unpin(work: Work, { serverId }: { readonly serverId: string }): Promise<Done> {
  const row = await pinnable(work, serverId)
  return row.pinnedTemplate === null ? {} : keep(work, row, { pinnedTemplate: null, pinnedAt: null })
}

async function pinnable({ tx, holder }: Work, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  if (!grants(holder.permissions, 'admin.write')) {
    throw new PanelError('PERMISSION_DENIED', 'Which version of its template a server has needs admin.write', {
      meta: { missing: ['admin.write'] },
    })
  }
  refuseSuspended(row)
  if (row.deletingAt !== null) {
    throw new PanelError('SERVER_INVALID_STATE', 'This server is being deleted', {
      meta: { currentStatus: 'deleting', allowed: [] },
    })
  }
  return row
}

/** In force at the next start, as every edit. */
async function keep(
  { tx, deps, userId }: Work,
  row: ServerRow,
  columns: Pick<ServerRow, 'pinnedTemplate' | 'pinnedAt'>,
): Promise<Done> {
  refuseLostLine(row)
  await tx.q.updateTable('server').set(columns).where('id', '=', row.id).execute()
  const generation = await nextGeneration(tx, row, {})
  await replaceQueuedApplies(tx, deps.bus, row)
  await addCommand(tx, deps, { row, generation, op: 'apply', args: {} })
  return {
    audit: {
      resourceId: row.id,
      details: { templateId: row.templateId, pinnedAt: { before: row.pinnedAt, after: columns.pinnedAt } },
    },
    events: [{ type: 'server_updated', serverId: row.id, data: { updatedBy: userId, change: 'pinnedAt' } }],
  }
}

/** The startup line that the server has chosen must be in the template that it gets. */
function refuseLostLine({ startupName, currentDefinition }: ServerRow): void {
  const { startupCommands } = definitionOf({ templateDefinition: currentDefinition })
  if (startupName === null || startupCommands.some(({ name }) => name === startupName)) return
  throw new PanelError(
    'CONFLICT',
    `The template has no startup line ${startupName} any more; let the server have another one first (startupName)`,
  )
}
