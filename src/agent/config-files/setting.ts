import { RE2JS } from 're2js'
import { MOST_PATTERN_STEPS, patternSteps } from '../../shared/kernel/pattern-steps.ts'
import type { ConfigValue } from '../../shared/protocol/config-files.ts'
import { ConfigFileProblem } from './config-file-problem.ts'

/** One value of a configuration file, its placeholders filled in. */
export interface Setting {
  readonly key: string
  readonly value: ConfigValue
  readonly ifValue?: string | undefined
}

const REGEX = 'regex:'

/**
 * What a value becomes that is now `current` (`undefined`: absent). With `ifValue` that is a change of what equals it, or of
 * what the expression behind `regex:` finds, with `$1` for its groups; `undefined`: it stays.
 */
export function replacement({ value, ifValue, key }: Setting, current: string | undefined): ConfigValue | undefined {
  if (ifValue === undefined) return value
  if (current === undefined) return undefined
  if (!ifValue.startsWith(REGEX)) return current === ifValue ? value : undefined
  const matcher = compiled(ifValue.slice(REGEX.length), key).matcher(current)
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
