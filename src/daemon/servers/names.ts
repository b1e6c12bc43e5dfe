import { PanelError } from '../../shared/errors.ts'
import type { Tx } from '../core/db.ts'

/**
 * Refuses a name that another server of the same owner has: whoever names a server means one. Owners do not see each other's, so
 * each may have a `survival`. Writes come one after the other, so that of two at the same time one gets it. Servers that share
 * a name from earlier times, or since one changed hands, keep it.
 */
export async function ensureNameFree(
  tx: Tx,
  { ownerId, name }: { readonly ownerId: string; readonly name: string },
): Promise<void> {
  const taken = await tx.q
    .selectFrom('server')
    .select('id')
    .where('ownerId', '=', ownerId)
    .where('name', '=', name)
    .where('deletingAt', 'is', null)
    .executeTakeFirst()
  if (taken === undefined) return
  throw new PanelError('SERVER_NAME_TAKEN', `The owner has a server called ${name} already; choose another name`, {
    meta: { serverId: taken.id },
  })
}
