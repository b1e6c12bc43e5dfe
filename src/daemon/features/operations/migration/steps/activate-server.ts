import { z } from 'zod'
import { recordFact } from '../../../../access/operation.ts'
import { unsuspend } from '../../../servers/servers/suspend.ts'
import { findMapped } from '../map.ts'
import { MOVING_IN } from './import-server.ts'
import { stepAction } from './step.ts'

/**
 * Lets a server be used that is here with all that belongs to it. One that is suspended on the source stays so, and one that somebody has
 * suspended here meanwhile.
 */
export const activateServer = stepAction({
  input: z.object({ serverSourceId: z.string(), isSuspended: z.boolean() }),
  run: async ({ deps, principal, sourceFp }, { serverSourceId, isSuspended }) => {
    return async (tx) => {
      const mapped = await findMapped(tx.q, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
      if (mapped === undefined) return { kind: 'skipped', reason: 'policy' }
      const row = await tx.q
        .selectFrom('server')
        .select(['suspendedAt', 'suspensionReason'])
        .where('id', '=', mapped.targetId)
        .executeTakeFirst()
      if (row === undefined || row.suspendedAt === null || row.suspensionReason !== MOVING_IN) return { kind: 'done' }
      if (isSuspended) {
        const set = { suspensionReason: 'Suspended on the panel that it came from' }
        await tx.q.updateTable('server').set(set).where('id', '=', mapped.targetId).execute()
        return { kind: 'done' }
      }
      const holder = { userId: '', permissions: new Set(['*']), scope: null }
      const work = { tx, deps, caller: undefined, userId: null, holder, record: (): Promise<void> => Promise.resolve() }
      const { audit, events = [] } = await unsuspend(work, { serverId: mapped.targetId })
      const entry = audit && { ...audit, action: 'server.unsuspend', resource: 'server' }
      await recordFact(tx, { deps, principal }, { audit: entry, events })
      return { kind: 'done' }
    }
  },
})
