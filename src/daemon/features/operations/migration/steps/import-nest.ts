import { z } from 'zod'
import { createNest, updateNest } from '../../../catalog/templates/nest-operations.ts'
import { findNestIdByName } from '../../../catalog/templates/nest-rows.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { stepAction } from './step.ts'

/** Brings a nest, or links the one that has its name. */
export const importNest = stepAction({
  input: z.object({
    source: z.object({ id: z.string(), uuid: z.string().nullable(), name: z.string(), description: z.string() }),
    name: z.string(),
    op: z.enum(['create', 'link', 'update']),
  }),
  run: async ({ deps, principal, targetId }, { source, name, op }) => {
    return async (tx) => {
      const hash = contentHash(source)
      const description = source.description.slice(0, 500)
      if (op === 'update' && targetId !== null) {
        await call(tx, updateNest, { deps, principal, params: { nestId: targetId }, body: { description } })
        return { kind: 'done', target: { type: 'nest', id: targetId, created: true, contentHash: hash } }
      }
      const there = await findNestIdByName(tx.q, name)
      const id = there ?? (await call(tx, createNest, { deps, principal, body: { name, description } })).id
      return { kind: 'done', target: { type: 'nest', id, created: there === undefined, contentHash: hash } }
    }
  },
})
