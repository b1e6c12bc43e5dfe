import type { NewTemplate } from '../../../../shared/api/template-fields.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { ServerRow } from './rows.ts'
import { definitionOf } from './view.ts'

type Images = Pick<NewTemplate, 'image' | 'images' | 'defaultImage'>

/**
 * The image that was asked for, by its name or label in the template or as it is; `null` for the template's own. Refuses one that
 * the template does not have.
 */
export function chosenImage(template: Images, asked: string | null | undefined): string | null {
  if (asked === null || asked === undefined) return null
  const found = template.images.find(({ name, label, image }) => [name, label, image].includes(asked))?.image
  if (found !== undefined) return found
  if (asked === template.image) return asked
  const names = template.images.map(({ name }) => name).join(', ')
  throw fieldError(
    'body.image',
    names === '' ? 'the template has no images to choose from' : `must be one of the template's: ${names}`,
  )
}

/** The same for a server that is edited: what it has may be sent back as it was shown, also when its template has dropped it. */
export function keptImage(row: ServerRow, asked: string | null): string | null {
  return asked === row.image ? asked : chosenImage(definitionOf(row), asked)
}

/** The image that a server runs in. One that its template has dropped is not used any more. */
export function imageOfServer(row: Pick<ServerRow, 'image'>, template: Images): string {
  const { image } = row
  if (image !== null && (image === template.image || template.images.some((one) => one.image === image))) return image
  const { defaultImage } = template
  return template.images.find((one) => [one.name, one.image].includes(defaultImage ?? ''))?.image ?? template.image
}
