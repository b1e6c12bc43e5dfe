import * as api from '../../../../shared/api/servers.ts'
import * as suspension from '../../../../shared/api/suspension.ts'
import * as templatePin from '../../../../shared/api/template-pin.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { operationsOver, type WorkOver } from '../../../access/operation.ts'
import type { PortLooks } from '../../fleet/nodes/port-looks.ts'
import type { ResizeDeps } from './applies-at.ts'
import { insertServer } from './create.ts'
import { changeServer } from './edit.ts'
import type { OrphanDeps } from './orphans.ts'
import { type RemovalDeps, remove } from './remove.ts'
import { resize } from './resize.ts'
import { findServerRow } from './rows.ts'
import { type SuspensionDeps, suspend, unsuspend } from './suspend.ts'
import { pin, unpin } from './template-pin.ts'
import { toServer, type ViewFacts, viewerOf } from './view.ts'

/** What the operations of servers need. */
export type ServerDeps = RemovalDeps &
  SuspensionDeps &
  OrphanDeps &
  ResizeDeps & { readonly facts: ViewFacts; readonly portLooks: PortLooks }

const operation = operationsOver<ServerDeps>()

export const createServer = operation(api.createServer, async (work, { body }) => {
  const { id, commandId, done } = await insertServer(work, body)
  return { ...done, answer: { ...(await shown(work, id)), commandId } }
})

export const updateServer = operation(api.updateServer, async (work, { params: { serverId }, body: patch }) => {
  const { done, appliesAt } = await changeServer(work, { serverId, patch })
  return { ...done, answer: { ...(await shown(work, serverId)), appliesAt } }
})

export const patchServer = operation(api.patchServer, updateServer.run)

export const resizeStorage = operation(api.resizeStorage, async (work, { params: { serverId }, body }) => {
  const { done, answer } = await resize(work, { serverId, allocatedDiskMb: body.allocatedDiskMb })
  return { ...done, answer }
})

export const deleteServer = operation(
  api.deleteServer,
  async (work, { params: { serverId }, query: { force, keepFiles } }) => {
    const done = await remove(work, { serverId, force: force === 'true', keepFiles: keepFiles === 'true' })
    return { ...done, answer: null }
  },
)

export const pinServer = operation(templatePin.pinServer, async (work, { params: { serverId }, body: { refresh } }) => {
  const done = await pin(work, { serverId, refresh })
  return { ...done, answer: await shown(work, serverId) }
})

export const unpinServer = operation(templatePin.unpinServer, async (work, { params: { serverId } }) => {
  const done = await unpin(work, { serverId })
  return { ...done, answer: await shown(work, serverId) }
})

export const suspendServer = operation(suspension.suspendServer, async (work, { params: { serverId }, body }) => {
  const { reason = null, stopServer } = body
  const { done } = await suspend(work, { serverId, reason, stopServer })
  return { ...done, answer: await shown(work, serverId) }
})

export const unsuspendServer = operation(suspension.unsuspendServer, async (work, { params: { serverId } }) => {
  const done = await unsuspend(work, { serverId })
  return { ...done, answer: await shown(work, serverId) }
})

/** The server as the principal sees it. */
async function shown({ tx, deps, holder }: WorkOver<ServerDeps>, id: string): Promise<ReturnType<typeof toServer>> {
  const row = await findServerRow(tx.q, id)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
  return toServer(row, await viewerOf(tx, holder, [row]), deps.facts)
}
