import type { NewTemplate } from '../api/template-fields.ts'
import type { FieldProblem } from '../kernel/errors.ts'
import { MOST_PATTERN_STEPS, patternSteps } from '../kernel/pattern-steps.ts'
import { PRIMARY_PORT } from '../kernel/ports.ts'
import { readStartupLine, startupLineProblem } from '../kernel/startup-line.ts'
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
    ...consoleProblems(template),
    ...imageProblems(template),
    ...variableProblems(template, budget),
    ...detectionProblems(template, budget),
    ...configFileProblems(template, budget),
    ...portProblems(template),
    ...queryProblems(template),
    ...levelProblems(template, budget),
  ]
}

function startupProblems({ startup, startupCommands, ports }: NewTemplate): FieldProblem[] {
  const lines = [
    ['startup', startup],
    ...startupCommands.map(({ command }, index) => [`startupCommands.${index}.command`, command]),
  ]
  return lines.flatMap(([field = '', line = '']) => {
    const message = startupLineProblem(line) ?? portPlaceholderProblem(line, ports)
    return message === undefined ? [] : [{ field, message }]
  })
}

/** A startup line gets the number of a port by its variable: what has none would become nothing, and say so nowhere. */
function portPlaceholderProblem(line: string, ports: NewTemplate['ports']): string | undefined {
  for (const { name } of readStartupLine(line).placeholders) {
    const [server, allocations, port = '', what] = name.split('.')
    if (server !== 'server' || allocations !== 'allocations' || port === PRIMARY_PORT) continue
    if (what === 'port' && ports.some((one) => one.name === port && one.variable !== null)) continue
    return `names {{${name}}}: it needs a port ${port} with a variable, and can name its number alone`
  }
  return undefined
}

/** An RCON console goes by variables of the template; a console without input takes no stop command. */
function consoleProblems({ console, variables, ports, stopCommand }: NewTemplate): FieldProblem[] {
  if (console.kind === 'none' && stopCommand !== '' && !stopCommand.startsWith('^')) {
    return [{ field: 'stopCommand', message: 'cannot be typed: the console takes no input; use ^C or sendSignalTo' }]
  }
  if (console.kind !== 'rcon') return []
  const { port, passwordVariable } = console
  const problems: FieldProblem[] = []
  const isKnown = (name: string): boolean =>
    variables.some((variable) => variable.name === name) || ports.some(({ variable }) => variable === name)
  if (typeof port === 'string' && port !== 'SERVER_PORT' && !isKnown(port)) {
    problems.push({ field: 'console.port', message: `names no variable of the template: ${port}` })
  }
  const password = variables.find(({ name }) => name === passwordVariable)
  if (password === undefined) {
    problems.push({
      field: 'console.passwordVariable',
      message: `names no variable of the template: ${passwordVariable}`,
    })
  } else if (!password.secret) {
    problems.push({ field: 'console.passwordVariable', message: `must be a variable with secret: ${passwordVariable}` })
  }
  return problems
}

function stopProblems({ stopCommand, console }: NewTemplate): FieldProblem[] {
  if (stopCommand.includes('\n') || stopCommand.includes('\r')) {
    return [{ field: 'stopCommand', message: 'must be one line: a console takes a line at a time' }]
  }
  if (stopCommand === '^D') {
    if (console.kind === 'pty') return []
    return [{ field: 'stopCommand', message: 'ends the input of a terminal: ^D needs the console pty' }]
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

/** Ports that would be one and the same, or that no server could have. */
function portProblems({ ports, supportedPorts }: NewTemplate): FieldProblem[] {
  const [names, offsets, variables] = [new Set<string>(), new Set<number>(), new Set<string>()]
  return ports.flatMap(({ name, offset, variable, required }, index) => {
    const field = `ports.${index}`
    const found: FieldProblem[] = []
    const add = (of: string, message: string): number => found.push({ field: `${field}.${of}`, message })
    if (names.has(name)) add('name', `is used twice: ${name}`)
    names.add(name)
    if (offset === 0) add('offset', 'must not be 0, which is the primary port itself; it has TCP and UDP')
    else if (offset !== null && offsets.has(offset)) add('offset', `is used twice: ${offset}`)
    if (offset !== null) offsets.add(offset)
    const tooFar = supportedPorts.find((port) => offset !== null && (port + offset < 1 || port + offset > 65_535))
    if (required && tooFar !== undefined) add('offset', `leads from the supported port ${tooFar} to no port`)
    if (variable !== null && SHELL_VARIABLES.has(variable)) add('variable', SHELLS_OWN)
    else if (variable !== null && variables.has(variable)) add('variable', `is used twice: ${variable}`)
    if (variable !== null) variables.add(variable)
    return found
  })
}

function queryProblems({ query, variables, ports }: NewTemplate): FieldProblem[] {
  if (query === null || query.port === null) return []
  if (variables.some(({ name }) => name === query.port) || ports.some(({ variable }) => variable === query.port))
    return []
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
