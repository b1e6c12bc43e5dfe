import { z } from 'zod'
import { ServerMount } from '../../../../../shared/protocol/mounts.ts'
import { parseJson } from '../../../../db/json.ts'
import { updateServer } from '../../../servers/servers/operations.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { StepRefusal, stepAction } from './step.ts'

/** Where servers of a source see their own folder. */
const HOME = '/home/container/'

/** Gives a server a folder of its node that it had on the source, by the same path. Its node has to allow that in its own file. */
export const importMount = stepAction({
  input: z.object({
    serverSourceId: z.string(),
    source: z.looseObject({ source: z.string(), target: z.string(), isReadOnly: z.boolean() }),
    op: z.enum(['create', 'update']),
  }),
  run: async ({ deps, principal, sourceFp }, { serverSourceId, source }) => {
    const target = source.target.startsWith(HOME) ? source.target.slice(HOME.length) : source.target
    const mount = ServerMount.safeParse({ source: source.source, target, readOnly: source.isReadOnly })
    if (!mount.success) return () => Promise.resolve({ kind: 'skipped', reason: 'mount_unreadable' })
    return async (tx) => {
      const mapped = await findMapped(tx.q, { sourceFp, sourceType: 'server', sourceId: serverSourceId })
      const row =
        mapped === undefined
          ? undefined
          : await tx.q
              .selectFrom('server')
              .select(['id', 'mounts'])
              .where('id', '=', mapped.targetId)
              .executeTakeFirst()
      if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'Its server has been deleted here')
      const others = parseJson(z.array(ServerMount), row.mounts).filter((one) => one.target !== mount.data.target)
      const body = { mounts: [...others, mount.data] }
      await call(tx, updateServer, { deps, principal, params: { serverId: row.id }, body })
      const id = `${row.id} ${mount.data.target}`
      const warnings = [
        `its node must allow the folder ${mount.data.source} in its agent.yaml, or the server does not start`,
      ]
      return {
        kind: 'done',
        target: { type: 'mount', id, created: true, contentHash: contentHash(source) },
        notes: { warnings },
      }
    }
  },
})
