import { isIP, isIPv4, isIPv6 } from 'node:net'
import { RE2JS } from 're2js'
import { z } from 'zod'
import { patternSteps } from '../kernel/pattern-steps.ts'
import { type BoundedPattern, compileBounded } from './bounded-pattern.ts'

/** Looks at a value that is not empty; a string is what is wrong with it, as in `must be an integer`. */
export type Check = (value: string) => string | undefined

/** Whether sizes are lengths (`text`) or the number itself. */
export type Measure = 'text' | 'number'

/** Makes the check of one rule from what stands after its colon; `undefined`: that is malformed. Throws a PatternProblem. */
type Maker = (argument: string | undefined, measure: Measure) => Check | undefined

/** Every rule by its name. */
export const RULES: Readonly<Record<string, Maker>> = {
  required: plain(() => true, ''), // whether a value may be empty is decided before its checks
  nullable: plain(() => true, ''),
  sometimes: plain(() => true, ''),
  required_if: conditional(2),
  required_unless: conditional(2),
  required_with: conditional(1),
  required_without: conditional(1),
  string: plain(() => true, ''),
  numeric: plain((value) => toNumber(value) !== undefined, 'must be a number'),
  integer: plain((value) => /^[+-]?\d{1,18}$/.test(value), 'must be an integer'),
  boolean: plain((value) => /^(?:0|1|true|false)$/.test(value), 'must be true, false, 1 or 0'),
  min: sized(
    1,
    (size, [low = 0]) => size >= low,
    ([low], unit) => `must be at least ${low}${unit}`,
  ),
  max: sized(
    1,
    (size, [high = 0]) => size <= high,
    ([high], unit) => `must be at most ${high}${unit}`,
  ),
  size: sized(
    1,
    (size, [exact]) => size === exact,
    ([exact], unit) => `must be exactly ${exact}${unit}`,
  ),
  between: sized(
    2,
    (size, [low = 0, high = 0]) => size >= low && size <= high,
    ([low, high], unit) => `must be from ${low} to ${high}${unit}`,
  ),
  in: listed((value, list) => list.includes(value), 'must be one of'),
  not_in: listed((value, list) => !list.includes(value), 'must be none of'),
  starts_with: listed((value, list) => list.some((item) => value.startsWith(item)), 'must begin with one of'),
  ends_with: listed((value, list) => list.some((item) => value.endsWith(item)), 'must end with one of'),
  regex: expression(true),
  not_regex: expression(false),
  alpha: plain((value) => /^[\p{L}\p{M}]+$/u.test(value), 'must be letters'),
  alpha_num: plain((value) => /^[\p{L}\p{M}\p{N}]+$/u.test(value), 'must be letters and digits'),
  alpha_dash: plain((value) => /^[\p{L}\p{M}\p{N}_-]+$/u.test(value), 'must be letters, digits, - and _'),
  digits: counted(1, ([count]) => `must be ${count} digits`),
  digits_between: counted(2, ([low, high]) => `must be ${low} to ${high} digits`),
  url: plain(isUrl, 'must be a URL'),
  active_url: plain(isUrl, 'must be a URL'),
  ip: plain((value) => isIP(value) !== 0, 'must be an IP address'),
  ipv4: plain(isIPv4, 'must be an IPv4 address'),
  ipv6: plain(isIPv6, 'must be an IPv6 address'),
  email: plain((value) => z.email().safeParse(value).success, 'must be an e-mail address'),
  uuid: plain((value) => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(value), 'must be a UUID'),
  date: plain((value) => !Number.isNaN(Date.parse(value)), 'must be a date'),
  json: plain(isJson, 'must be JSON'),
}

function plain(holds: (value: string) => boolean, problem: string): Maker {
  return (argument) => (argument === undefined ? (value) => (holds(value) ? undefined : problem) : undefined)
}

/** Demands a value by what others are; of a value that is there it says nothing. */
function conditional(least: number): Maker {
  return (argument) => {
    const words = (argument ?? '').split(',')
    const [other = ''] = words
    return words.length >= least && other.trim() !== '' ? () => undefined : undefined
  }
}

function sized(
  count: number,
  holds: (size: number, limits: readonly number[]) => boolean,
  problem: (limits: readonly number[], unit: string) => string,
): Maker {
  return (argument, measure) => {
    const limits = numbers(argument, count)
    if (limits === undefined) return undefined
    return (value) => {
      const size = measure === 'number' ? toNumber(value) : [...value].length
      // That it is no number is for the rule `numeric` or `integer` to say.
      if (size === undefined || holds(size, limits)) return undefined
      return problem(limits, measure === 'number' ? '' : ' characters')
    }
  }
}

function counted(count: number, problem: (limits: readonly number[]) => string): Maker {
  return (argument) => {
    const limits = numbers(argument, count)
    if (limits === undefined || !limits.every((limit) => Number.isInteger(limit) && limit >= 0)) return undefined
    const [low = 0, high = low] = limits
    return (value) => (/^\d+$/.test(value) && value.length >= low && value.length <= high ? undefined : problem(limits))
  }
}

function listed(holds: (value: string, list: readonly string[]) => boolean, problem: string): Maker {
  return (argument) => {
    if (argument === undefined || argument === '') return undefined
    const list = argument.split(',').map(unquoted)
    return (value) => (holds(value, list) ? undefined : `${problem} ${list.join(', ')}`)
  }
}

function unquoted(item: string): string {
  return item.length > 1 && item.startsWith('"') && item.endsWith('"') ? item.slice(1, -1) : item
}

/** Expressions are of RE2's syntax: their time grows with the value and no faster. */
function expression(wanted: boolean): Maker {
  return (argument) => {
    const pattern = compile(argument ?? '')
    if (pattern === undefined) return undefined
    const problem = wanted ? `must match ${argument}` : `must not match ${argument}`
    return (value) => (pattern.find(value) === wanted ? undefined : problem)
  }
}

/** The steps of the expression that a rule of this name has; 0 for one without. */
export function stepsOfRule(name: string, argument: string | undefined): number {
  if (name !== 'regex' && name !== 'not_regex') return 0
  return patternSteps(argument ?? '')
}

function compile(text: string): BoundedPattern | undefined {
  const delimiter = text[0] ?? ''
  const end = text.lastIndexOf(delimiter)
  const letters = text.slice(end + 1)
  if (!'/~#@%!'.includes(delimiter) || end < 1 || [...letters].some((letter) => !'iusm'.includes(letter))) {
    return undefined
  }
  const flags =
    (letters.includes('i') ? RE2JS.CASE_INSENSITIVE : 0) |
    (letters.includes('s') ? RE2JS.DOTALL : 0) |
    (letters.includes('m') ? RE2JS.MULTILINE : 0)
  return compileBounded(text.slice(1, end).replaceAll(`\\${delimiter}`, delimiter), flags)
}

function numbers(argument: string | undefined, count: number): number[] | undefined {
  const found = (argument ?? '').split(',').map((text) => toNumber(text.trim()))
  const whole = found.filter((number) => number !== undefined)
  if (whole.length !== count || found.length !== count) return undefined
  const [low = 0, high = low] = whole
  return low <= high ? whole : undefined
}

function toNumber(text: string): number | undefined {
  return /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i.test(text) ? Number(text) : undefined
}

function isUrl(value: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) && URL.canParse(value)
}

function isJson(value: string): boolean {
  try {
    JSON.parse(value)
    return true
  } catch {
    return false // that is the answer
  }
}
