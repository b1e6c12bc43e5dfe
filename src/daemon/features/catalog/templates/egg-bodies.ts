import { PanelError } from '../../../../shared/kernel/errors.ts'
import { EggProblem, eggPatch, importEgg, isEgg } from '../../../../shared/templates/egg-import.ts'

/** The refusal of an egg; its problems are named by where it stands in the request. */
export function eggRefusal({ details }: EggProblem, at: string): PanelError {
  const named = details.map(({ field, message }) => ({ field: field === '' ? at : `${at}.${field}`, message }))
  const [first] = named
  return new PanelError(
    'VALIDATION_ERROR',
    `The egg cannot be imported: ${first?.field ?? at} ${first?.message ?? ''}`,
    {
      details: named,
    },
  )
}

/** An egg that was sent as a new template, as the template that it becomes; anything else is left alone. */
export function newTemplateOfEgg(body: unknown): unknown {
  if (!isEgg(body)) return body
  const { template, document } = imported(body)
  return { ...template, egg: document }
}

/** An egg that was sent for a template that exists: all that the egg describes but its name and how it is run. */
export function patchOfEgg(body: unknown): unknown {
  if (!isEgg(body)) return body
  const egg = imported(body)
  return { ...eggPatch(egg), egg: egg.document }
}

function imported(body: unknown) {
  try {
    return importEgg(body)
  } catch (error) {
    throw error instanceof EggProblem ? eggRefusal(error, 'body') : error
  }
}
