import { createHash } from 'node:crypto'
import type { z } from 'zod'
import { NewTemplate, type TemplatePatch } from '../../../../shared/api/templates.ts'
import { type FieldProblem, PanelError } from '../../../../shared/kernel/errors.ts'
import { MOST_PATTERN_STEPS, patternSteps } from '../../../../shared/kernel/pattern-steps.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { startupLineProblem } from '../../../../shared/kernel/startup-line.ts'
import { SHELL_VARIABLES, StopSignal, signalOf } from '../../../../shared/protocol/server-spec.ts'
import type { Caller } from '../../../access/caller.ts'
import { parseJson } from '../../../db/json.ts'
import { compileBounded, PatternBudget, PatternProblem } from './bounded-pattern.ts'
import { ruleProblems, TOO_MUCH, valueProblem } from './rules.ts'

const SHELLS_OWN = 'is a name that shells set or refuse themselves; choose another name'

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
  const budget = new PatternBudget()
  const details = [
    ...startupProblems(template),
    ...stopProblems(template),
    ...imageProblems(template),
    ...variableProblems(template, budget),
    ...detectionProblems(template, budget),
  ]
  const [first] = details
  if (first === undefined) return
  throw new PanelError('VALIDATION_ERROR', `The request is not valid: ${first.field} ${first.message}`, { details })
}

/** The template as this caller is shown it: the defaults of secrets only if he may edit it, and so send them back. */
export function shownTo<T extends { readonly id: string; readonly variables?: Variables }>(
  caller: Caller,
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

function startupProblems({ startup }: NewTemplate): FieldProblem[] {
  const message = startupLineProblem(startup)
  return message === undefined ? [] : [{ field: 'body.startup', message }]
}

function stopProblems({ stopCommand }: NewTemplate): FieldProblem[] {
  if (stopCommand.includes('\n') || stopCommand.includes('\r')) {
    return [{ field: 'body.stopCommand', message: 'must be one line: a console takes a line at a time' }]
  }
  if (!stopCommand.startsWith('^') || signalOf(stopCommand) !== undefined) return []
  const names = StopSignal.options.map((name) => `^${name}`).join(', ')
  return [{ field: 'body.stopCommand', message: `names no signal: with ^ it must be ^C, ^\\ or one of ${names}` }]
}

function imageProblems({ runtimes, image }: NewTemplate): FieldProblem[] {
  if (!runtimes.includes('docker') || image !== '') return []
  return [{ field: 'body.image', message: 'is required when docker is among the runtimes' }]
}

function variableProblems({ variables }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  const seen = new Set<string>()
  return variables.flatMap((variable, index) => {
    const field = `body.variables.${index}`
    const twice = seen.has(variable.name)
    seen.add(variable.name)
    if (SHELL_VARIABLES.has(variable.name)) return [{ field: `${field}.name`, message: SHELLS_OWN }]
    if (twice) return [{ field: `${field}.name`, message: `is used twice: ${variable.name}` }]
    const rules = ruleProblems(variable.rules, budget)
    if (rules.length > 0) return rules.map((rule) => ({ field: `${field}.rules.${rule.index}`, message: rule.message }))
    // An empty default is no value: whoever makes a server gives one.
    const message = variable.default === '' ? undefined : valueProblem(variable, variable.default, budget)
    return message === undefined ? [] : [{ field: `${field}.default`, message }]
  })
}

function detectionProblems({ startupDetection }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  return startupDetection.done.flatMap((rule, index) => {
    if (rule.kind === 'contains') return []
    const field = `body.startupDetection.done.${index}.value`
    try {
      const steps = patternSteps(rule.value)
      if (steps <= MOST_PATTERN_STEPS && !budget.take(steps)) return [{ field, message: TOO_MUCH }]
      compileBounded(rule.value)
      return []
    } catch (error) {
      if (error instanceof PatternProblem) return [{ field, message: error.message }]
      throw error
    }
  })
}
