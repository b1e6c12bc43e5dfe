import { z } from 'zod'
import { setServerAccess } from '../../../servers/sharing/grants.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
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
      if (server === undefined || user === undefined) throw new StepRefusal('CONFLICT', 'The server or the person has not been imported')
      const row = await tx.q.selectFrom('server').select('ownerId').where('id', '=', server.targetId).executeTakeFirst()
      if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'The server has been deleted here')
      if (row.ownerId === user.targetId) return { kind: 'skipped', reason: 'owner' }
      const body = { targetUserId: user.targetId, permissions: source.permissions }
      await call(tx, setServerAccess, { deps, principal, params: { serverId: server.targetId }, body })
      const id = `${server.targetId}/${user.targetId}`
      const target = { type: 'access', id, created: true, contentHash: contentHash(source) }
      return { kind: 'done', target, notes: { unmapped: source.unmapped } }
    }
  },
})
