import type { z } from 'zod'

/** What a value must be, by zod's name of the type. */
const KINDS: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

/**
 * What a value must be, in words that follow the name of its field ("body.port must be a number"); to be given to zod as
 * `error` of a parse, where it stands behind the words that a schema has of its own. `undefined`: zod's own words will do.
 */
export function mustBe(issue: z.core.$ZodRawIssue): string | undefined {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'is required' : `must be ${KINDS[issue.expected] ?? issue.expected}`
    case 'too_small':
      return bound(issue, issue.minimum, issue.inclusive === false ? 'more than' : 'at least')
    case 'too_big':
      return bound(issue, issue.maximum, issue.inclusive === false ? 'less than' : 'at most')
    case 'not_multiple_of':
      return `must be a multiple of ${issue.divisor}`
    case 'invalid_value':
      return `must be ${issue.values.length > 1 ? 'one of ' : ''}${issue.values.map(String).join(', ')}`
    case 'unrecognized_keys':
      return `has no field ${issue.keys.join(', ')}`
    case 'invalid_format':
      return issue.format === 'email' ? 'must be an e-mail address' : undefined
    default:
      return undefined
  }
}

/** What is counted in a value that has a length: one, and several. */
const PARTS: Readonly<Record<string, readonly [string, string]>> = {
  string: ['character', 'characters'],
  array: ['entry', 'entries'],
  set: ['entry', 'entries'],
}

function bound(of: { origin?: string; exact?: boolean }, limit: number | bigint, how: string): string {
  const parts = PARTS[of.origin ?? '']
  if (parts === undefined) return `must be ${how} ${limit}`
  return `must have ${of.exact === true ? 'exactly' : how} ${limit} ${parts[Number(limit) === 1 ? 0 : 1]}`
}
