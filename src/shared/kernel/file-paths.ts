import { z } from 'zod'
import { type GlobPart, matchesGlob, parseGlob } from './glob.ts'

/** Limits of the patterns of one member. */
const MOST_PATTERNS = 50
const MOST_CHARACTERS = 200
const MOST_NAMES = 32

/**
 * A pattern of paths in the folder of a server, as .gitignore has them: one without a slash, or with one at its end alone, fits at any
 * depth; one with a slash at its end fits folders; `**` stands for any number of folders. What lies in a folder that fits, fits too. There
 * is no `!`: two lists say the same, and their order does not matter.
 */
const FilePattern = z
  .string()
  .trim()
  .min(1)
  .max(MOST_CHARACTERS)
  .refine(isPattern, `must be a pattern of paths such as plugins/ or *.yml, without !, .. and control characters`)

const Patterns = z
  .array(FilePattern)
  .max(MOST_PATTERNS)
  .transform((list) => [...new Set(list)])

/** Which files of a server a member may reach: those of `allow` (without any: all of them), except those of `deny`. */
export const FilePaths = z.object({ allow: Patterns.default([]), deny: Patterns.default([]) })
export type FilePaths = z.output<typeof FilePaths>

/** The same as answers have it. */
export const ShownFilePaths = z.object({ allow: z.array(z.string()), deny: z.array(z.string()) })

/** Which paths a member reaches. Each answer takes patterns times length of the path, whatever both say. */
export class FileReach {
  readonly #allow: readonly Pattern[] | undefined
  readonly #deny: readonly Pattern[]

  constructor({ allow, deny }: FilePaths) {
    this.#allow = allow.length === 0 ? undefined : allow.map((text) => patternOf(text))
    // Where a disk knows no case, another spelling is the same file.
    this.#deny = deny.map((text) => patternOf(text.toLowerCase()))
  }

  /** Whether what is there may be read and changed. */
  allows(path: string, isFolder: boolean): boolean {
    const names = namesOf(path)
    if (this.#isDenied(names, isFolder)) return false
    return this.#allow === undefined || this.#allow.some((pattern) => fits(pattern, names, isFolder) === 'fits')
  }

  /** Whether a folder may be looked into: it is allowed, or on the way to what is. */
  opens(path: string): boolean {
    const names = namesOf(path)
    if (this.#isDenied(names, true)) return false
    return this.#allow === undefined || this.#allow.some((pattern) => fits(pattern, names, true) !== 'no')
  }

  #isDenied(names: readonly string[], isFolder: boolean): boolean {
    if (this.#deny.length === 0) return false
    const folded = names.map((name) => name.toLowerCase())
    return this.#deny.some((pattern) => fits(pattern, folded, isFolder) === 'fits')
  }
}

/** Whether all that `inner` reaches is certainly reached by `outer`: it allows some of the same patterns, and denies no fewer. */
export function isWithinPaths(inner: FilePaths | null, outer: FilePaths | null): boolean {
  if (outer === null) return true
  if (inner === null) return false
  const allows =
    outer.allow.length === 0 || (inner.allow.length > 0 && inner.allow.every((one) => outer.allow.includes(one)))
  return allows && outer.deny.every((one) => inner.deny.includes(one))
}

interface Pattern {
  /** By names; `null`: any number of folders. */
  readonly parts: readonly (readonly GlobPart[] | null)[]
  readonly foldersOnly: boolean
}

function patternOf(text: string): Pattern {
  const foldersOnly = text.endsWith('/')
  const names = namesOf(text)
  const isAnchored = text.startsWith('/') || names.length > 1
  const parts = names.map((name) => (name === '**' ? null : parseGlob(name)))
  // What ends with it means what is in the folder, and not the folder.
  if (parts.at(-1) === null) parts.push(parseGlob('*'))
  return { parts: isAnchored ? parts : [null, ...parts], foldersOnly }
}

/** `on the way`: something below may fit. */
function fits(
  { parts, foldersOnly }: Pattern,
  names: readonly string[],
  isFolder: boolean,
): 'fits' | 'on the way' | 'no' {
  let at = opened(parts, [0])
  for (const [number, name] of names.entries()) {
    const next = at.flatMap((part) => {
      const glob = parts[part]
      if (glob === null) return [part]
      return glob !== undefined && matchesGlob(glob, name) ? [part + 1] : []
    })
    at = opened(parts, next)
    if (at.length === 0) return 'no'
    const isFolderHere = number < names.length - 1 || isFolder
    if (at.includes(parts.length) && (!foldersOnly || isFolderHere)) return 'fits'
  }
  return 'on the way'
}

/** Together with the places behind `**`, which may stand for no folder at all. */
function opened(parts: Pattern['parts'], places: readonly number[]): number[] {
  const all = new Set<number>()
  for (const place of places) {
    let part = place
    all.add(part)
    while (parts[part] === null) all.add(++part)
  }
  return [...all]
}

function isPattern(text: string): boolean {
  const names = namesOf(text)
  if (names.length === 0 || names.length > MOST_NAMES || names.includes('..') || text.startsWith('!')) return false
  for (const character of text) if (character < ' ' || character === '\u007f') return false
  return true
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.')
}
