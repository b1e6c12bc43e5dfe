import { RE2JS } from 're2js'
import { MOST_PATTERN_STEPS, patternSteps } from '../../shared/kernel/pattern-steps.ts'
import { fillPlaceholders } from '../../shared/kernel/placeholders.ts'
import type { ConfigFile, ConfigValue } from '../../shared/protocol/config-files.ts'
import { ConfigFileProblem } from './config-file-problem.ts'

/** One value of a configuration file, its placeholders filled in. */
export interface Setting {
  readonly key: string
  readonly value: ConfigValue
  readonly ifValue?: string | undefined
  /** The expression of `ifValue`, compiled once for all places of the file; throws a {@link ConfigFileProblem}. */
  readonly expression: () => RE2JS
}

const REGEX = 'regex:'
const BRACED_GROUP = /\$\{(\d{1,2})\}/g

/** A setting as a start needs it; `known` has the values of its placeholders. */
export function settingOf(
  { key, value, ifValue }: ConfigFile['set'][number],
  known: Readonly<Record<string, string>>,
): Setting {
  let made: RE2JS | undefined
  const expression = (): RE2JS => {
    made ??= compiled((ifValue ?? '').slice(REGEX.length), key)
    return made
  }
  if (typeof value !== 'string') return { key, value, ifValue, expression }
  const isPattern = ifValue?.startsWith(REGEX) === true
  return { key, value: isPattern ? withGroups(value, known) : fillPlaceholders(value, known), ifValue, expression }
}

/** Groups are `$1` or `${1}` where eggs come from, and `$1` alone here. A `$` in the value of a variable names none. */
function withGroups(value: string, known: Readonly<Record<string, string>>): string {
  const literal = Object.entries(known).map(([name, text]) => [name, text.replaceAll('$', '$$$$')] as const)
  return fillPlaceholders(value.replace(BRACED_GROUP, '$$$1'), Object.fromEntries(literal))
}

/** How many steps the expressions of these settings have: with the size of a file, what changing it costs. */
export function stepsOfSettings(set: ConfigFile['set']): number {
  return set.reduce((sum, { ifValue }) => {
    return sum + (ifValue?.startsWith(REGEX) === true ? patternSteps(ifValue.slice(REGEX.length)) : 0)
  }, 0)
}

/** A present value as `ifValue` sees it; lists and objects are none. */
export function textOfValue(value: unknown): string | undefined {
  return value === undefined || (typeof value === 'object' && value !== null) ? undefined : String(value)
}

/**
 * What a value becomes that is now `current` (`undefined`: absent). With `ifValue` that is a change of what equals it, or of
 * what the expression behind `regex:` finds, with `$1` for its groups; `undefined`: it stays.
 */
export function replacement(
  { value, ifValue, expression }: Setting,
  current: string | undefined,
): ConfigValue | undefined {
  if (ifValue === undefined) return value
  if (current === undefined) return undefined
  if (!ifValue.startsWith(REGEX)) return current === ifValue ? value : undefined
  const matcher = expression().matcher(current)
  return matcher.find() ? matcher.reset().replaceAll(String(value ?? '')) : undefined
}

function compiled(pattern: string, key: string): RE2JS {
  const problem = new ConfigFileProblem(`cannot be changed at ${key}: its expression cannot be used`)
  if (patternSteps(pattern) > MOST_PATTERN_STEPS) throw problem
  try {
    return RE2JS.compile(pattern)
  } catch {
    throw problem // templates are not saved with one; this came from an older daemon
  }
}
