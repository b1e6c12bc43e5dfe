import type { TemplateVariable } from '../../shared/api/templates.ts'
import type { FieldProblem } from '../../shared/errors.ts'
import { type Check, RULES } from './rule-checks.ts'

/** Rules of one variable, ready to look at values. */
type Variable = Pick<TemplateVariable, 'name' | 'default' | 'required' | 'rules'>

/** What a rule that cannot be used is refused for, by its place among the variable's rules. */
export function ruleProblems(rules: readonly string[]): { index: number; message: string }[] {
  return rules.flatMap((rule, index) => {
    const { name, argument } = split(rule)
    const maker = Object.hasOwn(RULES, name) ? RULES[name] : undefined
    if (maker === undefined) return [{ index, message: `has no rule '${name}'; write one rule per entry` }]
    return maker(argument, 'text') === undefined ? [{ index, message: `is malformed: '${rule}'` }] : []
  })
}

/** What is wrong with the value of a variable, as in `must be an integer`; `undefined` when nothing is. */
export function valueProblem(variable: Variable, value: string): string | undefined {
  if (value.includes('\0')) return 'must not contain the character NUL'
  if (value === '') return isRequired(variable) ? 'is required' : undefined
  for (const check of checksOf(variable.rules)) {
    const problem = check(value)
    if (problem !== undefined) return problem
  }
  return undefined
}

/**
 * The values of a server's variables: what is given, over what it has (`existing`), over the template's defaults. A
 * given name that the template does not have is refused; an existing one that it no longer has falls away. Of a server that
 * exists only the given values are checked: what an edit of the template made wrong must not stop other changes.
 * Problems name their fields `body.environment.NAME`.
 */
export function checkEnvironment(
  variables: readonly Variable[],
  given: Readonly<Record<string, string>>,
  { existing }: { existing?: Readonly<Record<string, string>> | undefined } = {},
): { environment: Record<string, string>; problems: FieldProblem[] } {
  const known = new Set(variables.map(({ name }) => name))
  const unknown = Object.keys(given).filter((name) => !known.has(name))
  const problems: FieldProblem[] = unknown.map((name) => problem(name, 'is no variable of the template'))
  const environment: Record<string, string> = {}
  for (const variable of variables) {
    const own = ownValue(given, variable.name)
    const value = own ?? ownValue(existing ?? {}, variable.name) ?? variable.default
    environment[variable.name] = value
    if (own === undefined && existing !== undefined) continue
    const message = valueProblem(variable, value)
    if (message !== undefined) problems.push(problem(variable.name, message))
  }
  return { environment, problems }
}

function problem(name: string, message: string): FieldProblem {
  return { field: `body.environment.${name}`, message }
}

function ownValue(values: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined
}

function isRequired({ required, rules }: Variable): boolean {
  return required || rules.some((rule) => split(rule).name === 'required')
}

function checksOf(rules: readonly string[]): Check[] {
  const parts = rules.map(split)
  const measure = parts.some(({ name }) => name === 'numeric' || name === 'integer') ? 'number' : 'text'
  return parts.map(({ name, argument }) => {
    const check = Object.hasOwn(RULES, name) ? RULES[name]?.(argument, measure) : undefined
    return check ?? ((): string => `cannot be checked: the template's rule '${name}' is not one of this version`)
  })
}

function split(rule: string): { name: string; argument: string | undefined } {
  const colon = rule.indexOf(':')
  if (colon === -1) return { name: rule.trim(), argument: undefined }
  return { name: rule.slice(0, colon).trim(), argument: rule.slice(colon + 1) }
}
