import { z } from 'zod'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import { EggProblem, eggPatch, importEgg as readEgg } from '../../../../../shared/templates/egg-import.ts'
import { createTemplate, updateTemplate } from '../../../catalog/templates/operations.ts'
import { findMapped } from '../map.ts'
import { contentHash } from '../plan/content-hash.ts'
import { call } from './call.ts'
import { StepRefusal, stepAction } from './step.ts'

/** Brings an egg as a template, with the egg kept beside it; a template that is overwritten keeps its name. */
export const importTemplate = stepAction({
  input: z.object({
    source: z.looseObject({
      id: z.string(),
      nestId: z.string(),
      name: z.string(),
      document: z.record(z.string(), z.unknown()),
    }),
    name: z.string(),
    op: z.enum(['create', 'link', 'update']),
  }),
  run: async ({ deps, principal, targetId, sourceFp }, { source, name, op }) => {
    const egg = op === 'link' ? undefined : read(source.document)
    return async (tx) => {
      const hash = contentHash(source)
      if (egg === undefined) {
        const id =
          targetId ?? (await tx.q.selectFrom('template').select('id').where('name', '=', name).executeTakeFirst())?.id
        if (id === undefined) throw new StepRefusal('TEMPLATE_NOT_FOUND', `The template ${name} is gone`)
        return { kind: 'done', target: { type: 'template', id, created: false, contentHash: hash } }
      }
      const notes = { report: egg.report }
      if (op === 'update' && targetId !== null) {
        const body = { ...eggPatch(egg), egg: egg.document }
        await call(tx, updateTemplate, { deps, principal, params: { templateId: targetId }, body })
        return { kind: 'done', target: { type: 'template', id: targetId, created: false, contentHash: hash }, notes }
      }
      const nest = await findMapped(tx.q, { sourceFp, sourceType: 'nest', sourceId: source.nestId })
      const body = { ...egg.template, name, nestId: nest?.targetId ?? null, egg: egg.document }
      const { id } = await call(tx, createTemplate, { deps, principal, body })
      return { kind: 'done', target: { type: 'template', id, created: true, contentHash: hash }, notes }
    }
  },
})

function read(document: Readonly<Record<string, unknown>>) {
  try {
    return readEgg(document)
  } catch (error) {
    if (error instanceof EggProblem || error instanceof PanelError)
      throw new StepRefusal('VALIDATION_ERROR', error.message)
    throw error
  }
}
