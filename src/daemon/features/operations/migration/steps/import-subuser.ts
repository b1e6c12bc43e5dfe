import { z } from 'zod'
import { recordFact } from '../../../../access/operation.ts'
import { putGrant } from '../../../accounts/users/server-grants.ts'
import { memberChange } from '../../../servers/sharing/grants.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { StepRefusal, stepAction } from './step.ts'

/** Brings what somebody may do on a server of somebody else; never more than on the source. */
export const importSubuser = stepAction({
  input: z.object({
    serverSourceId: z.string(),
    source: z.object({ userSourceId: z.string(), permissions: z.array(z.string()), unmapped: z.array(z.string()) }),
    op: z.enum(['create', 'update']),
  }),
  run: async ({ deps, principal, sourceFp }, { serverSourceId, source }) => {
    return async (tx) => {
      const server = await findMapped(tx.q, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
      const user = await findMapped(tx.q, { sourceFp, sourceType: 'user', sourceId: source.userSourceId })
      if (server === undefined || user === undefined)
        throw new StepRefusal('CONFLICT', 'The server or the person has not been imported')
      const row = await tx.q.selectFrom('server').select('ownerId').where('id', '=', server.targetId).executeTakeFirst()
      if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'The server has been deleted here')
      if (row.ownerId === user.targetId) return { kind: 'skipped', reason: 'owner' }
      const [serverId, userId] = [server.targetId, user.targetId]
      const { permissions } = source
      // Not by the operation of people: the server is suspended until its files are here, and refuses them that.
      await putGrant(tx, deps.clock, { serverId, userId, permissions, filePaths: null, expiresAt: null })
      const change = { change: 'access_updated', details: { userId, permissions, cause: 'migration' } }
      const { audit, events = [] } = memberChange({ tx, deps, userId: null }, serverId, change)
      await recordFact(
        tx,
        { deps, principal },
        { audit: audit && { ...audit, action: 'server.access_update', resource: 'server' }, events },
      )
      const id = `${serverId}/${userId}`
      const target = { type: 'access', id, created: true, contentHash: contentHash(source) }
      return { kind: 'done', target, notes: { unmapped: source.unmapped } }
    }
  },
})
