import { isUtf8 } from 'node:buffer'
import type { NewTemplate, TemplateVariable } from '../../../../shared/api/template-fields.ts'
import type { Template } from '../../../../shared/api/templates.ts'
import type { FieldProblem } from '../../../../shared/kernel/errors.ts'
import { DocumentProblem, readDocument } from '../../../../shared/templates/document.ts'
import { EggProblem, eggPatch, type ImportedEgg, importEgg, isEgg } from '../../../../shared/templates/egg-import.ts'
import { type DifferenceRow, differences } from '../differences.ts'
import type { SourceFile } from './source-file.ts'

/** An egg of a source, or why it is none that can be imported. */
export type SourceEgg =
  | { readonly path: string; readonly egg: ImportedEgg }
  | { readonly path: string; readonly problems: readonly FieldProblem[] }

/** What every format of eggs has in `meta.version`, in each of the texts that an egg may come as. */
const FORMAT = /(?:PTDL|PLCN)_v\d/

/** The eggs among the files, by their content. Files that are no eggs are passed over; what is one and cannot be read is named. */
export function eggsOf(files: readonly SourceFile[]): SourceEgg[] {
  return files.flatMap(({ path, content }): SourceEgg[] => {
    try {
      const { value } = readDocument(textOf(content))
      return isEgg(value) ? [{ path, egg: importEgg(value) }] : []
    } catch (error) {
      if (error instanceof EggProblem) return [{ path, problems: error.details }]
      if (!(error instanceof DocumentProblem)) throw error
      // Another kind of file, unless it names a format of eggs. UTF-16 has a NUL beside each letter.
      const isAnEgg = FORMAT.test(Buffer.from(content).toString('latin1').replaceAll('\0', ''))
      return isAnEgg ? [{ path, problems: [{ field: '', message: error.message }] }] : []
    }
  })
}

function textOf(content: Uint8Array): string {
  if (!isUtf8(content)) throw new DocumentProblem('is no text in UTF-8')
  return new TextDecoder().decode(content)
}

/** What importing an egg would do to the panel's templates. */
export type Plan = NewPlan | KnownPlan | RefusedPlan

export interface NewPlan {
  readonly kind: 'new'
  readonly path: string
  readonly egg: ImportedEgg
}

export interface KnownPlan {
  readonly kind: 'changed' | 'same'
  readonly path: string
  readonly egg: ImportedEgg
  readonly template: Template
  readonly patch: Partial<NewTemplate>
  readonly changes: readonly DifferenceRow[]
}

/** It cannot be imported as it is; why. */
export interface RefusedPlan {
  readonly kind: 'refused'
  readonly path: string
  readonly name: string
  readonly why: string
}

/** Finds for each egg the template that was made of it: by its uuid, else by its update URL, else by its name among templates of eggs. */
export function plansOf(eggs: readonly SourceEgg[], templates: readonly Template[]): Plan[] {
  const plans = eggs.map((one) => planOf(one, templates))
  return plans.map((plan, at) => {
    const twin = plans.find((other, index) => index < at && clash(plan, other))
    if (twin === undefined || plan.kind === 'refused') return plan
    const why = `is for the same template as ${twin.path}; name the one that is meant`
    return { kind: 'refused', path: plan.path, name: plan.egg.template.name, why }
  })
}

function planOf(one: SourceEgg, templates: readonly Template[]): Plan {
  const { path } = one
  if ('problems' in one) {
    const [first] = one.problems
    return { kind: 'refused', path, name: '', why: `${first?.field ?? ''} ${first?.message ?? ''}`.trim() }
  }
  const { egg } = one
  const { name } = egg.template
  const found = madeOf(egg, templates)
  if (found.length > 1) {
    const names = found.map((template) => template.name).join(', ')
    return { kind: 'refused', path, name, why: `several templates were made of it: ${names}` }
  }
  const [template] = found
  if (template === undefined) {
    const isTaken = templates.some((other) => other.name === name)
    const why = `the name ${name} is taken by a template that was made of no egg`
    return isTaken ? { kind: 'refused', path, name, why } : { kind: 'new', path, egg }
  }
  const patch = patchFor(egg, template)
  const changes = differences(template, { ...template, ...patch })
  // The egg itself may be another one where the template is not.
  return { kind: changes.length === 0 ? 'same' : 'changed', path, egg, template, patch, changes }
}

function madeOf({ origin, template: { name } }: ImportedEgg, templates: readonly Template[]): Template[] {
  const by = (same: (other: NonNullable<Template['origin']>) => boolean) =>
    templates.filter((other) => other.origin !== null && other.origin !== undefined && same(other.origin))
  const byUuid = origin.uuid === null ? [] : by(({ uuid }) => uuid === origin.uuid)
  if (byUuid.length > 0) return byUuid
  const byUrl = origin.updateUrl === null ? [] : by(({ updateUrl }) => updateUrl === origin.updateUrl)
  const named = (byUrl.length > 0 ? byUrl : by(({ uuid }) => uuid === null || origin.uuid === null)).filter(
    (other) => other.name === name,
  )
  return named.length > 0 ? named : byUrl
}

/** An egg does not know which variables are secret here, nor how they are asked for. */
function patchFor(egg: ImportedEgg, template: Template): Partial<NewTemplate> {
  const patch = eggPatch(egg)
  const kept = new Map(template.variables.map((variable) => [variable.name, variable]))
  const variables = patch.variables?.map((variable): TemplateVariable => {
    const { secret, input } = kept.get(variable.name) ?? variable
    return { ...variable, secret, input }
  })
  return variables === undefined ? patch : { ...patch, variables }
}

function clash(plan: Plan, other: Plan): boolean {
  if (plan.kind === 'refused' || other.kind === 'refused') return false
  if (plan.kind === 'new' || other.kind === 'new') {
    return plan.kind === other.kind && plan.egg.template.name === other.egg.template.name
  }
  return plan.template.id === other.template.id
}
