/**
 * Patterns of names as shells have them: `*` any characters, `?` one, `[a-z]` and `[!a-z]` one of a set, and `\` before a
 * character that stands for itself. They match whole names. Matching takes at most pattern times name steps, whatever both say.
 */
export type GlobPart =
  | { readonly kind: 'any' }
  | { readonly kind: 'one' }
  | { readonly kind: 'char'; readonly char: string }
  | { readonly kind: 'set'; readonly not: boolean; readonly ranges: readonly (readonly [number, number])[] }

/** A pattern that was read once for many names. */
export function parseGlob(pattern: string): readonly GlobPart[] {
  const parts: GlobPart[] = []
  const chars = [...pattern]
  for (let at = 0; at < chars.length; at++) {
    const char = chars[at] ?? ''
    if (char === '*') {
      if (parts.at(-1)?.kind !== 'any') parts.push({ kind: 'any' })
    } else if (char === '?') parts.push({ kind: 'one' })
    else if (char === '\\' && at + 1 < chars.length) parts.push({ kind: 'char', char: chars[++at] ?? '' })
    else {
      const set = char === '[' ? setAt(chars, at) : undefined
      parts.push(set?.part ?? { kind: 'char', char })
      at = set?.end ?? at
    }
  }
  return parts
}

/** Whether the whole name fits. */
export function matchesGlob(parts: readonly GlobPart[], name: string): boolean {
  const chars = [...name]
  let part = 0
  let at = 0
  /** The last `*`, and how far it reaches: it takes one more each time that what follows does not fit. */
  let star = -1
  let starAt = 0
  while (at < chars.length) {
    const now = parts[part]
    if (now?.kind === 'any') {
      star = part++
      starAt = at
    } else if (now !== undefined && fits(now, chars[at] ?? '')) {
      part++
      at++
    } else if (star >= 0) {
      part = star + 1
      at = ++starAt
    } else return false
  }
  while (parts[part]?.kind === 'any') part++
  return part === parts.length
}

/** Whether the text has anything that makes it more than a name. */
export function hasGlob(text: string): boolean {
  return parseGlob(text).some(({ kind }) => kind !== 'char')
}

/** The name that a pattern without any magic stands for. */
export function plainOf(parts: readonly GlobPart[]): string | undefined {
  let name = ''
  for (const part of parts) {
    if (part.kind !== 'char') return undefined
    name += part.char
  }
  return name
}

function fits(part: GlobPart, char: string): boolean {
  if (part.kind === 'char') return part.char === char
  if (part.kind !== 'set') return part.kind === 'one'
  const code = char.codePointAt(0) ?? 0
  return part.ranges.some(([from, to]) => code >= from && code <= to) !== part.not
}

/** The set that begins here; `undefined` when nothing closes it. */
function setAt(chars: readonly string[], begin: number): { readonly part: GlobPart; readonly end: number } | undefined {
  let at = begin + 1
  const not = chars[at] === '!' || chars[at] === '^'
  if (not) at++
  const ranges: (readonly [number, number])[] = []
  for (let first = true; at < chars.length; first = false) {
    if (chars[at] === ']' && !first) return { part: { kind: 'set', not, ranges }, end: at }
    if (chars[at] === '\\' && at + 1 < chars.length) at++
    const from = chars[at++]?.codePointAt(0) ?? 0
    const isRange = chars[at] === '-' && at + 1 < chars.length && chars[at + 1] !== ']'
    const to = isRange ? (chars[at + 1]?.codePointAt(0) ?? 0) : from
    if (isRange) at += 2
    ranges.push([from, to])
  }
  return undefined
}
