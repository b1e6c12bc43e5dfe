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
  run: async ({ deps, principal, targetId, sourceFp, options }, { source, name, op }) => {
    const { document, warnings } = withReadableNames(source.document)
    const egg = op === 'link' ? undefined : read(document)
    return async (tx) => {
      const hash = contentHash(source)
      if (egg === undefined) {
        const id =
          targetId ?? (await tx.q.selectFrom('template').select('id').where('name', '=', name).executeTakeFirst())?.id
        if (id === undefined) throw new StepRefusal('TEMPLATE_NOT_FOUND', `The template ${name} is gone`)
        return { kind: 'done', target: { type: 'template', id, created: false, contentHash: hash } }
      }
      const notes = { report: egg.report, warnings }
      const { runtimes } = options
      if (op === 'update' && targetId !== null) {
        const body = { ...eggPatch(egg), egg: egg.document }
        await call(tx, updateTemplate, { deps, principal, params: { templateId: targetId }, body })
        return { kind: 'done', target: { type: 'template', id: targetId, created: false, contentHash: hash }, notes }
      }
      const nest = await findMapped(tx.q, { sourceFp, sourceType: 'nest', sourceId: source.nestId })
      const body = { ...egg.template, name, runtimes, nestId: nest?.targetId ?? null, egg: egg.document }
      const { id } = await call(tx, createTemplate, { deps, principal, body })
      return { kind: 'done', target: { type: 'template', id, created: true, contentHash: hash }, notes }
    }
  },
})

/** Names that no shell has: what they hold could not be used, and would keep all of the egg from coming. */
function withReadableNames(document: Readonly<Record<string, unknown>>): {
  readonly document: Readonly<Record<string, unknown>>
  readonly warnings: readonly string[]
} {
  const Variables = z.array(z.looseObject({ env_variable: z.string() }))
  const variables = Variables.safeParse(document['variables'])
  if (!variables.success) return { document, warnings: [] }
  const kept = variables.data.filter(({ env_variable: name }) => NAME.test(name))
  const left = variables.data.filter((one) => !kept.includes(one))
  if (left.length === 0) return { document, warnings: [] }
  const names = left.map(({ env_variable: name }) => name.slice(0, 100)).join(', ')
  const warnings = [`variables whose names no program here can read were left out: ${names}`]
  return { document: { ...document, variables: kept }, warnings }
}

const NAME = /^\w{1,191}$/

function read(document: Readonly<Record<string, unknown>>) {
  try {
    return readEgg(document)
  } catch (error) {
    if (error instanceof EggProblem || error instanceof PanelError)
      throw new StepRefusal('VALIDATION_ERROR', error.message)
    throw error
  }
}
