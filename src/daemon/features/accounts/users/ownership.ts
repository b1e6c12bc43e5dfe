import { OWNER_PERMISSIONS } from '../../../../shared/kernel/permissions.ts'
import type { Done, WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { ensureMayGive } from '../auth/server-cap.ts'

/** A change of owner. */
interface Handover {
  readonly server: { readonly id: string; readonly ownerId: string }
  readonly newOwnerId: string
  readonly holder: Holder
}

/**
 * Gives the server to its new owner, who needs no grant on it any more; invitations of the old one end. The holder must hold
 * all that an owner may do there, because it is passed on.
 */
export async function handOver({ tx, userId }: WorkOver<unknown>, handover: Handover): Promise<Done> {
  const { server, newOwnerId, holder } = handover
  await ensureMayGive(tx, holder, {
    serverId: server.id,
    permissions: OWNER_PERMISSIONS,
    filePaths: null,
    expiresAt: null,
  })
  await tx.q.updateTable('server').set({ ownerId: newOwnerId, updatedAt: tx.now }).where('id', '=', server.id).execute()
  await tx.q.deleteFrom('serverAccess').where('serverId', '=', server.id).where('userId', '=', newOwnerId).execute()
  const data = { updatedBy: userId, change: 'ownerId' }
  return {
    audit: {
      action: 'server.transfer_ownership',
      resource: 'server',
      resourceId: server.id,
      details: { ownerId: { before: server.ownerId, after: newOwnerId } },
    },
    events: [{ type: 'server_updated', serverId: server.id, data }],
  }
}
