import { type GlobPart, matchesGlob, parseGlob } from '../../shared/kernel/glob.ts'

/** What one pattern may have. */
const MOST_PATTERN = 1000
const MOST_PARTS = 32

interface Pattern {
  readonly isNegated: boolean
  readonly onlyFolders: boolean
  /** Names from the root on; `null`: any number of folders. */
  readonly names: readonly (readonly GlobPart[] | null)[]
}

/**
 * Patterns as .gitignore has them: `#` for remarks, `!` takes back, a slash in the middle or at the beginning holds it to the root, one at the
 * end to folders, `**` is any number of folders. Anybody who writes files of a server writes them, so that matching takes no more than
 * the lengths of pattern and path together allow, which expressions do not promise.
 */
export class IgnoredPaths {
  readonly #patterns: readonly Pattern[]

  constructor(lines: readonly string[]) {
    this.#patterns = lines.flatMap((line) => patternOf(line))
  }

  get isEmpty(): boolean {
    return this.#patterns.length === 0
  }

  /** Whether an entry is left out by itself; what lies in an ignored folder is never asked for. */
  has(names: readonly string[], isFolder: boolean): boolean {
    const found = this.#patterns.findLast(
      ({ names: wanted, onlyFolders }) => (isFolder || !onlyFolders) && fits(wanted, names),
    )
    return found !== undefined && !found.isNegated
  }
}

function patternOf(line: string): Pattern[] {
  let text = line.endsWith('\r') ? line.slice(0, -1) : line
  while (text.endsWith(' ') && !text.endsWith('\\ ')) text = text.slice(0, -1)
  if (text === '' || text.startsWith('#') || text.length > MOST_PATTERN) return []
  const isNegated = text.startsWith('!')
  if (isNegated) text = text.slice(1)
  const onlyFolders = text.endsWith('/')
  const isHeld = text.slice(0, -1).includes('/')
  const parts = text.split('/').filter((part) => part !== '')
  if (parts.length === 0 || parts.length > MOST_PARTS) return []
  const names = parts.map((part) => (part === '**' ? null : parseGlob(part)))
  return [{ isNegated, onlyFolders, names: isHeld ? names : [null, ...names] }]
}

/** Which beginnings of the path fit each beginning of the pattern: rows of a table, so that nothing is tried twice. */
function fits(wanted: readonly (readonly GlobPart[] | null)[], names: readonly string[]): boolean {
  let row = names.map(() => false)
  let atStart = true
  for (const [number, part] of wanted.entries()) {
    const isLast = number === wanted.length - 1
    const next: boolean[] = []
    let reached = atStart
    for (const [at, name] of names.entries()) {
      const before = at === 0 ? atStart : (row[at - 1] ?? false)
      if (part === null) {
        reached ||= row[at] ?? false
        // At the end it stands for all that lies within.
        next.push(isLast ? before || (next[at - 1] ?? false) : reached)
      } else next.push(before && matchesGlob(part, name))
    }
    atStart = part === null && !isLast && atStart
    row = next
  }
  return row.at(-1) ?? false
}
