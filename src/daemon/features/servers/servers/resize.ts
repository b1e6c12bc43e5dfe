import type { z } from 'zod'
import type { resizeStorage } from '../../../../shared/api/servers.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import { changeServer, type EditDeps } from './edit.ts'
import { findServerRow } from './rows.ts'

/**
 * Changes the disk limit of a server, in force on its node as soon as that has it. Refuses what is less than it uses by its node's last
 * report (409), and an absent node (503): only there it can be put in force.
 */
export async function resize(
  work: WorkOver<EditDeps>,
  { serverId, allocatedDiskMb }: { readonly serverId: string; readonly allocatedDiskMb: number },
): Promise<{ done: Done; answer: z.input<typeof resizeStorage.response> }> {
  const { tx, deps } = work
  const row = await findServerRow(tx.q, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  if (allocatedDiskMb === row.diskMb) {
    return { done: {}, answer: { allocatedDiskMb, previousDiskMb: row.diskMb, commandId: null } }
  }
  if (!deps.isOnline(row.nodeId)) {
    throw new PanelError('NODE_OFFLINE', `The node ${row.nodeName} is offline; the limit is put in force there`)
  }
  const { done } = await changeServer(work, { serverId, patch: { allocatedDiskMb } })
  const command = await tx.q
    .selectFrom('command')
    .select('id')
    .where('serverId', '=', row.id)
    .where('op', '=', 'apply')
    .where('state', '=', 'queued')
    .where('endedAt', 'is', null)
    .orderBy('generation', 'desc')
    .executeTakeFirst()
  const commandId = (command?.id ?? null) as z.input<typeof resizeStorage.response>['commandId'] // made by addCommand
  return { done, answer: { allocatedDiskMb, previousDiskMb: row.diskMb, commandId } }
}
