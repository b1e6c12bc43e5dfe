/** More steps than any expression has that a person wrote to recognise a line or a value. */
export const MOST_PATTERN_STEPS = 1000

/**
 * How many steps the program of a regular expression has, about: what is repeated `{n}` times counts n times. Time and
 * memory of compiling and of matching grow with it, so it is asked before an expression is compiled. Reads the text once and
 * does not check it.
 */
export function patternSteps(pattern: string): number {
  const groups: Size[] = []
  let size: Size = { total: 0, atom: 0 }
  for (let at = 0; at < pattern.length; ) {
    const char = pattern[at] ?? ''
    const counter = char === '{' ? counterAt(pattern, at) : undefined
    if (counter !== undefined) {
      size = repeated(size, counter)
      at = counter.end
    } else if (char === '(') {
      groups.push(size)
      size = { total: 0, atom: 0 }
      at = endOfGroupKind(pattern, at)
    } else if (char === ')') {
      const outer = groups.pop() ?? { total: 0, atom: 0 }
      size = { total: outer.total + size.total + 2, atom: size.total + 2 }
      at += 1
    } else if ('*+?|'.includes(char)) {
      size = { total: size.total + 1, atom: size.atom + 1 }
      at += 1
    } else {
      size = { total: size.total + 1, atom: 1 }
      at = char === '[' ? endOfClass(pattern, at) : char === '\\' ? endOfEscape(pattern, at) : at + 1
    }
  }
  return groups.reduce((sum, { total }) => sum + total, size.total)
}

/** The steps of a group so far, and of what a counter behind it would repeat. */
interface Size {
  readonly total: number
  readonly atom: number
}

/** What may be left out needs a step of its own each time. */
function repeated({ total, atom }: Size, { least, most }: Pick<Counter, 'least' | 'most'>): Size {
  const all = atom * Math.max(1, most) + (most - least)
  return { total: total - atom + all, atom: all }
}

interface Counter {
  readonly least: number
  readonly most: number
  readonly end: number
}

/** `{3}`, `{3,}` or `{3,7}`; any other brace is a character. */
function counterAt(pattern: string, at: number): Counter | undefined {
  const counter = /\{(\d{1,6})(?:,(\d{0,6}))?\}/y
  counter.lastIndex = at
  const found = counter.exec(pattern)
  if (found === null) return undefined
  const least = Number(found[1])
  return { least, most: Math.max(least, Number(found[2] ?? 0)), end: counter.lastIndex }
}

/** Behind `(`, `(?:`, `(?i)`, `(?P<name>`: what kind of group it is costs nothing. */
function endOfGroupKind(pattern: string, at: number): number {
  const kind = /\(\?(?:P?<\w{1,60}>|[a-zA-Z-]{0,10}:)/y
  kind.lastIndex = at
  return kind.test(pattern) ? kind.lastIndex : at + 1
}

/** Behind the `]`; one that comes first belongs to the class. */
function endOfClass(pattern: string, begin: number): number {
  let at = begin + (pattern[begin + 1] === '^' ? 2 : 1)
  if (pattern[at] === ']') at += 1
  while (at < pattern.length && pattern[at] !== ']') {
    if (pattern[at] === '\\') at += 2
    else if (pattern.startsWith('[:', at)) at = Math.max(at + 1, pattern.indexOf(':]', at) + 2)
    else at += 1
  }
  return at + 1
}

/** Behind `\d`, `\p{Greek}` or `\x{10FFFF}`. */
function endOfEscape(pattern: string, at: number): number {
  const braced = /\\[pPx]\{[^}]{0,40}\}/y
  braced.lastIndex = at
  return braced.test(pattern) ? braced.lastIndex : at + 2
}
