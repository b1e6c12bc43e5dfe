import type { TemplateVariable } from '../api/template-fields.ts'
import type { FieldProblem } from '../kernel/errors.ts'
import { MOST_PATTERN_STEPS } from '../kernel/pattern-steps.ts'
import { PatternBudget, PatternProblem } from './bounded-pattern.ts'
import { type Check, type Measure, RULES, stepsOfRule } from './rule-checks.ts'

/** Rules of one variable, ready to look at values. */
type Variable = Pick<TemplateVariable, 'name' | 'default' | 'required' | 'rules'>

/** What the variables of a server are, by their names. */
type Values = Readonly<Record<string, string>>

/** Why an expression was not looked at. */
export const TOO_MUCH = 'the patterns of this template are too large together; use fewer or shorter ones'

/** What a rule that cannot be used is refused for, by its place among the variable's rules. */
export function ruleProblems(
  rules: readonly string[],
  budget = new PatternBudget(),
): { index: number; message: string }[] {
  return rules.flatMap((rule, index) => {
    const made = makeCheck(rule, 'text', { budget, characters: 0 })
    return typeof made === 'string' ? [{ index, message: made }] : []
  })
}

/**
 * What is wrong with the value of a variable, as in `must be an integer`; `undefined` when nothing is. Rules that look at other
 * variables (`required_if`) count when their `values` are given.
 */
export function valueProblem(
  variable: Variable,
  value: string,
  { budget = new PatternBudget(), values }: { budget?: PatternBudget; values?: Values } = {},
): string | undefined {
  if (value.includes('\0')) return 'must not contain the character NUL'
  if (value === '') return isRequired(variable, values) ? 'is required' : undefined
  for (const check of checksOf(variable.rules, { budget, characters: value.length })) {
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
  const budget = new PatternBudget()
  const environment = Object.fromEntries(
    variables.map(({ name, default: fallback }) => {
      return [name, ownValue(given, name) ?? ownValue(existing ?? {}, name) ?? fallback]
    }),
  )
  for (const variable of variables) {
    if (ownValue(given, variable.name) === undefined && existing !== undefined) continue
    const value = environment[variable.name] ?? ''
    const message = valueProblem(variable, value, { budget, values: environment })
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

function isRequired({ required, rules }: Variable, values: Values | undefined): boolean {
  return required || rules.some((rule) => requires(split(rule), values))
}

/** Whether a rule demands a value, given the values of the others; Laravel calls those `environment.NAME` as well. */
function requires({ name, argument = '' }: ReturnType<typeof split>, values: Values | undefined): boolean {
  if (name === 'required') return true
  if (values === undefined) return false
  const words = argument.split(',')
  const sibling = (word = ''): string => ownValue(values, word.trim().replace('environment.', '')) ?? ''
  const [other, ...listed] = words
  switch (name) {
    case 'required_if':
      return listed.includes(sibling(other))
    case 'required_unless':
      return !listed.includes(sibling(other))
    case 'required_with':
      return words.some((word) => sibling(word) !== '')
    case 'required_without':
      return words.some((word) => sibling(word) === '')
    default:
      return false
  }
}

/** What the expressions of a request may cost, and how long the text is that they look at. */
interface Work {
  readonly budget: PatternBudget
  readonly characters: number
}

/** A generator: the rule behind one that refuses is not compiled. */
function* checksOf(rules: readonly string[], work: Work): Generator<Check> {
  const names = rules.map((rule) => split(rule).name)
  const measure = names.some((name) => name === 'numeric' || name === 'integer') ? 'number' : 'text'
  for (const rule of rules) {
    const made = makeCheck(rule, measure, work)
    yield typeof made === 'string' ? () => `cannot be checked: the rule '${rule}' ${made}` : made
  }
}

/** The check of a rule, or what is wrong with the rule, as in `is malformed`. */
function makeCheck(rule: string, measure: Measure, { budget, characters }: Work): Check | string {
  const { name, argument } = split(rule)
  const maker = Object.hasOwn(RULES, name) ? RULES[name] : undefined
  if (maker === undefined) return `has no rule '${name}'; write one rule per entry`
  const steps = stepsOfRule(name, argument)
  try {
    if (steps > 0 && steps <= MOST_PATTERN_STEPS && !budget.take(steps, characters)) return TOO_MUCH
    return maker(argument, measure) ?? `is malformed: '${rule}'`
  } catch (error) {
    if (error instanceof PatternProblem) return error.message
    throw error
  }
}

function split(rule: string): { name: string; argument: string | undefined } {
  const colon = rule.indexOf(':')
  if (colon === -1) return { name: rule.trim(), argument: undefined }
  return { name: rule.slice(0, colon).trim(), argument: rule.slice(colon + 1) }
}
