import { RE2JS } from 're2js'

/** A search or filter pattern made ready. */
export interface Matcher {
  readonly pattern: string
  /** `!pattern`: what does not match. Only filters use it. */
  readonly inverse: boolean
  /** Whether the plain text of a line contains the pattern, whatever `inverse` says. */
  contains(text: string): boolean
  /** Where it does, as offsets into the text; at most 100. */
  ranges(text: string): (readonly [number, number])[]
}

/**
 * Reads a pattern: a regular expression, case ignored unless it has a capital letter. The engine takes time in proportion
 * to the text, so that no pattern can hold up the keys. Throws a sentence when the pattern is wrong.
 */
export function readPattern(source: string): Matcher {
  const inverse = source.startsWith('!') && source.length > 1
  const pattern = inverse ? source.slice(1) : source
  const exact = /\p{Lu}/u.test(pattern.replace(/\\./g, ''))
  const found = /[\\^$.|?*+()[\]{}]/.test(pattern) ? byExpression(pattern, exact) : byWord(pattern, exact)
  return { pattern, inverse, ...found }
}

type Finder = Pick<Matcher, 'contains' | 'ranges'>

const MOST_RANGES = 100

function byWord(word: string, exact: boolean): Finder {
  const prepare = exact ? (text: string): string => text : lowered
  const needle = prepare(word)
  return {
    contains: (text) => prepare(text).includes(needle),
    ranges: (text) => {
      const hay = prepare(text)
      const ranges: [number, number][] = []
      for (
        let at = hay.indexOf(needle);
        at >= 0 && ranges.length < MOST_RANGES;
        at = hay.indexOf(needle, at + needle.length)
      ) {
        ranges.push([at, at + needle.length])
      }
      return ranges
    },
  }
}

/** A text in lower case and of the same length, so that offsets hold: the few letters that become two stay as they are. */
function lowered(text: string): string {
  const lower = text.toLowerCase()
  if (lower.length === text.length) return lower
  return Array.from(text, (letter) =>
    letter.toLowerCase().length === letter.length ? letter.toLowerCase() : letter,
  ).join('')
}

function byExpression(pattern: string, exact: boolean): Finder {
  const compiled = compile(pattern, exact)
  return {
    contains: (text) => compiled.matcher(text).find(),
    ranges: (text) => {
      const matcher = compiled.matcher(text)
      const ranges: [number, number][] = []
      while (ranges.length < MOST_RANGES && matcher.find()) {
        if (matcher.end() > matcher.start()) ranges.push([matcher.start(), matcher.end()])
      }
      return ranges
    },
  }
}

function compile(pattern: string, exact: boolean): RE2JS {
  try {
    return RE2JS.compile(pattern, exact ? 0 : RE2JS.CASE_INSENSITIVE)
  } catch (error) {
    throw new Error(`bad pattern: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}
