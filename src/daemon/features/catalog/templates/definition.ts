import { createHash } from 'node:crypto'
import type { z } from 'zod'
import { NewTemplate } from '../../../../shared/api/template-fields.ts'
import type { TemplatePatch } from '../../../../shared/api/templates.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { templateProblems } from '../../../../shared/templates/template-problems.ts'
import type { Caller } from '../../../access/caller.ts'
import { parseJson } from '../../../db/json.ts'

/** What a template's row keeps as JSON: all that no query looks at. */
export const Definition = NewTemplate.omit({ name: true, nestId: true })

/** The template of a stored row. */
export function storedTemplate(row: { name: string; nestId: string | null; definition: string }): NewTemplate {
  // The column refers to a nest, whose id was made or checked when it was written.
  return { name: row.name, nestId: row.nestId as NewTemplate['nestId'], ...parseJson(Definition, row.definition) }
}

/** The JSON of a template's row. */
export function definitionJson({ name: _name, nestId: _nestId, ...definition }: NewTemplate): string {
  return JSON.stringify(definition)
}

/** The template after an edit: fields that the edit does not name stay. */
export function patched(before: NewTemplate, patch: TemplatePatch): NewTemplate {
  const named = Object.entries(patch).filter(([, value]) => value !== undefined)
  return { ...before, ...Object.fromEntries(named) }
}

/** Refuses with all that the schema cannot say: images, names used twice, rules, defaults, expressions. */
export function ensureUsable(template: NewTemplate): void {
  const details = templateProblems(template).map(({ field, message }) => ({ field: `body.${field}`, message }))
  const [first] = details
  if (first === undefined) return
  throw new PanelError('VALIDATION_ERROR', `The request is not valid: ${first.field} ${first.message}`, { details })
}

/** The template as this caller is shown it: the defaults of secrets only if they may edit it, and so send them back. */
export function shownTo<T extends { readonly id: string; readonly variables?: Variables }>(
  caller: Pick<Caller, 'permissions'>,
  shown: T,
): T {
  if (shown.variables === undefined || grants(caller.permissions, 'template.update', shown.id)) return shown
  return { ...shown, variables: masked(shown.variables) }
}

/** The template as the audit log keeps it: secrets masked, the script by its hash. */
export function auditView(template: NewTemplate): Record<string, unknown> {
  const { installScript } = template
  return {
    ...template,
    variables: masked(template.variables),
    installScript: installScript === null ? null : fingerprint(installScript),
  }
}

type Variables = z.input<typeof NewTemplate>['variables']

function masked<V extends { readonly secret?: boolean | undefined; readonly default?: string | undefined }>(
  variables: readonly V[],
): V[] {
  return variables.map((one) =>
    one.secret === true && (one.default ?? '') !== '' ? { ...one, default: SECRET_MASK } : one,
  )
}

function fingerprint(text: string): string {
  return `${Buffer.byteLength(text)} bytes, sha256 ${createHash('sha256').update(text).digest('hex')}`
}
