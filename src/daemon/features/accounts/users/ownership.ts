import { OWNER_PERMISSIONS } from '../../../../shared/kernel/permissions.ts'
import type { Actor, Audit } from '../../../access/audit.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { ensureMayGive } from '../auth/server-cap.ts'

/** A change of owner. */
interface Handover {
  readonly server: { readonly id: string; readonly ownerId: string }
  readonly newOwnerId: string
  readonly caller: Holder
  readonly actor: Actor
}

/**
 * Gives the server to its new owner, who needs no grant on it any more; invitations of the old one end. The caller must hold
 * all that an owner may do there: he passes it on.
 */
export async function handOver(tx: Tx, deps: { readonly audit: Audit; readonly bus: Bus }, handover: Handover) {
  const { server, newOwnerId, caller, actor } = handover
  await ensureMayGive(tx, caller, { serverId: server.id, permissions: OWNER_PERMISSIONS, expiresAt: null })
  await tx.q.updateTable('server').set({ ownerId: newOwnerId, updatedAt: tx.now }).where('id', '=', server.id).execute()
  await tx.q.deleteFrom('serverAccess').where('serverId', '=', server.id).where('userId', '=', newOwnerId).execute()
  await deps.audit.record(tx, actor, {
    action: 'server.transfer_ownership',
    resource: 'server',
    resourceId: server.id,
    details: { ownerId: { before: server.ownerId, after: newOwnerId } },
  })
  const data = { updatedBy: caller.userId, change: 'ownerId' }
  await deps.bus.append(tx, { type: 'server_updated', serverId: server.id, data })
}
