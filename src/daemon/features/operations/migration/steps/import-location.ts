import { z } from 'zod'
import { createLocation, updateLocation } from '../../../fleet/locations/operations.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { stepAction } from './step.ts'

/** Brings a location, or links the one that has its name. */
export const importLocation = stepAction({
  input: z.object({
    source: z.object({ id: z.string(), name: z.string(), description: z.string() }),
    name: z.string(),
    op: z.enum(['create', 'link', 'update']),
  }),
  run: async ({ deps, principal, targetId }, { source, name, op }) => {
    return async (tx) => {
      const hash = contentHash(source)
      const description = source.description.slice(0, 500)
      const there = await tx.q.selectFrom('location').select('id').where('name', '=', name).executeTakeFirst()
      if (op === 'update' && targetId !== null) {
        await call(tx, updateLocation, { deps, principal, params: { locationId: targetId }, body: { description } })
        return { kind: 'done', target: { type: 'location', id: targetId, created: true, contentHash: hash } }
      }
      // Since the plan was made somebody may have made or deleted one of this name.
      const id = there?.id ?? (await call(tx, createLocation, { deps, principal, body: { name, description } })).id
      return { kind: 'done', target: { type: 'location', id, created: there === undefined, contentHash: hash } }
    }
  },
})
