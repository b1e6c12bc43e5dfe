import type { NewTemplate } from '../api/templates.ts'
import type { FieldProblem } from '../kernel/errors.ts'
import { MOST_PATTERN_STEPS, patternSteps } from '../kernel/pattern-steps.ts'
import { startupLineProblem } from '../kernel/startup-line.ts'
import { SHELL_VARIABLES, StopSignal, signalOf } from '../protocol/server-spec.ts'
import { compileBounded, PatternBudget, PatternProblem } from './bounded-pattern.ts'
import { ruleProblems, TOO_MUCH, valueProblem } from './variable-rules.ts'

const SHELLS_OWN = 'is a name that shells set or refuse themselves; choose another name'

/** All that is wrong with a template beyond its schema: images, names used twice, rules, defaults, expressions. */
export function templateProblems(template: NewTemplate): FieldProblem[] {
  const budget = new PatternBudget()
  return [
    ...startupProblems(template),
    ...stopProblems(template),
    ...imageProblems(template),
    ...variableProblems(template, budget),
    ...detectionProblems(template, budget),
    ...configFileProblems(template, budget),
    ...queryProblems(template),
    ...levelProblems(template, budget),
  ]
}

function startupProblems({ startup, startupCommands }: NewTemplate): FieldProblem[] {
  const lines = [
    ['startup', startup],
    ...startupCommands.map(({ command }, index) => [`startupCommands.${index}.command`, command]),
  ]
  return lines.flatMap(([field = '', line = '']) => {
    const message = startupLineProblem(line)
    return message === undefined ? [] : [{ field, message }]
  })
}

function stopProblems({ stopCommand }: NewTemplate): FieldProblem[] {
  if (stopCommand.includes('\n') || stopCommand.includes('\r')) {
    return [{ field: 'stopCommand', message: 'must be one line: a console takes a line at a time' }]
  }
  if (!stopCommand.startsWith('^') || signalOf(stopCommand) !== undefined) return []
  const names = StopSignal.options.map((name) => `^${name}`).join(', ')
  return [{ field: 'stopCommand', message: `names no signal: with ^ it must be ^C, ^\\ or one of ${names}` }]
}

function imageProblems({ runtimes, image }: NewTemplate): FieldProblem[] {
  if (!runtimes.includes('docker') || image !== '') return []
  return [{ field: 'image', message: 'is required when docker is among the runtimes' }]
}

function variableProblems({ variables }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  const seen = new Set<string>()
  return variables.flatMap((variable, index) => {
    const field = `variables.${index}`
    const twice = seen.has(variable.name)
    seen.add(variable.name)
    if (SHELL_VARIABLES.has(variable.name)) return [{ field: `${field}.name`, message: SHELLS_OWN }]
    if (twice) return [{ field: `${field}.name`, message: `is used twice: ${variable.name}` }]
    const rules = ruleProblems(variable.rules, budget)
    if (rules.length > 0) return rules.map((rule) => ({ field: `${field}.rules.${rule.index}`, message: rule.message }))
    // An empty default is no value: whoever makes a server gives one.
    const message = variable.default === '' ? undefined : valueProblem(variable, variable.default, { budget })
    return message === undefined ? [] : [{ field: `${field}.default`, message }]
  })
}

function detectionProblems({ startupDetection }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  return startupDetection.done.flatMap((rule, index) => {
    if (rule.kind === 'contains') return []
    const message = patternProblem(rule.value, budget)
    return message === undefined ? [] : [{ field: `startupDetection.done.${index}.value`, message }]
  })
}

function configFileProblems({ configFiles }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  const seen = new Set<string>()
  return configFiles.flatMap(({ path, set }, index) => {
    const field = `configFiles.${index}`
    if (seen.has(path)) return [{ field: `${field}.path`, message: `is used twice: ${path}` }]
    seen.add(path)
    return set.flatMap(({ ifValue }, at) => {
      const message = ifValue?.startsWith('regex:') === true ? patternProblem(ifValue.slice(6), budget) : undefined
      return message === undefined ? [] : [{ field: `${field}.set.${at}.ifValue`, message }]
    })
  })
}

function queryProblems({ query, variables }: NewTemplate): FieldProblem[] {
  if (query === null || query.port === null || variables.some(({ name }) => name === query.port)) return []
  return [{ field: 'query.port', message: `names no variable of the template: ${query.port}` }]
}

function levelProblems({ logLevels }: NewTemplate, budget: PatternBudget): FieldProblem[] {
  return logLevels.flatMap(({ kind, value }, index) => {
    const message = kind === 'regex' ? patternProblem(value, budget) : undefined
    return message === undefined ? [] : [{ field: `logLevels.${index}.value`, message }]
  })
}

/** Why an expression of a template is refused; `undefined`: it can be used. */
export function patternProblem(pattern: string, budget: PatternBudget): string | undefined {
  try {
    const steps = patternSteps(pattern)
    if (steps <= MOST_PATTERN_STEPS && !budget.take(steps)) return TOO_MUCH
    compileBounded(pattern)
    return undefined
  } catch (error) {
    if (error instanceof PatternProblem) return error.message
    throw error
  }
}
