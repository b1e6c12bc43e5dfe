import { type Command, childOf, type Noun, type Tree } from './command.ts'
import { usage } from './failure.ts'
import { GLOBAL_FLAGS } from './flags.ts'
import { flagsHelp, helpFor } from './help.ts'

/** Global flags whose value is the next word, such as `-o` and `--context`. */
const VALUE_FLAGS = new Set(
  GLOBAL_FLAGS.flatMap(({ flags }) =>
    /<[^<>]+>/.test(flags) ? flags.split(/[ ,]+/).filter((word) => word.startsWith('-')) : [],
  ),
)

/** The help that is asked for: `-h` anywhere before `--`, `help <words>`, a bare noun, nothing at all. */
export function wantsHelp(tree: Tree, words: readonly string[]): string | undefined {
  const end = words.indexOf('--')
  const before = end === -1 ? words : words.slice(0, end)
  const named = namedWords(before)
  if (before.includes('-h') || before.includes('--help')) return helpFor(tree, knownPath(tree, named))
  if (named[0] === 'help' && named[1] === 'flags') return flagsHelp()
  if (named[0] === 'help') return helpFor(tree, strictPath(tree, named.slice(1)))
  const path = knownPath(tree, named)
  const isNoun = path.length === named.length && nodeAt(tree, path)?.kind !== 'command'
  return isNoun && before.every((word) => !word.startsWith('-')) ? helpFor(tree, path) : undefined
}

/** The words that are neither flags nor values of global ones: those of the command come first. */
export function namedWords(words: readonly string[]): readonly string[] {
  return words.filter((word, i) => !word.startsWith('-') && !VALUE_FLAGS.has(words[i - 1] ?? ''))
}

/** The help of a bare noun that has global flags around it. */
export function bareHelp(tree: Tree, words: readonly string[]): string {
  const named = words.find((word) => childOf(tree, word) !== undefined)
  return helpFor(tree, named === undefined ? [] : knownPath(tree, words.slice(words.indexOf(named))))
}

/** The names of the nodes that words lead to, as far as they are known. */
export function knownPath(tree: Tree, words: readonly string[]): readonly string[] {
  const [first, ...rest] = words
  const child = first === undefined ? undefined : childOf(tree, first)
  if (child === undefined) return []
  return [child.name, ...(child.kind === 'noun' ? knownPath(child.children, rest) : [])]
}

function strictPath(tree: Tree, words: readonly string[]): readonly string[] {
  const path = knownPath(tree, words)
  if (path.length < words.length) throw usage(`there is no command '${words.join(' ')}'`, 'panel help')
  return path
}

/** The node at the end of a path. */
export function nodeAt(tree: Tree, path: readonly string[]): Command | Noun | undefined {
  const [first, ...rest] = path
  const child = first === undefined ? undefined : childOf(tree, first)
  if (rest.length === 0 || child === undefined) return child
  return child.kind === 'noun' ? nodeAt(child.children, rest) : undefined
}

/**
 * `--json` takes fields only when they follow; before the command's own words are complete the next word is one of them, as
 * in `panel --json servers list`.
 */
export function settleJson(tree: Tree, argv: readonly string[]): readonly string[] {
  let level: Tree = tree
  const end = argv.indexOf('--')
  return argv.map((word, i) => {
    if (end !== -1 && i > end) return word
    if (word.startsWith('-')) {
      const next = argv[i + 1]
      return word === '--json' && next !== undefined && childOf(level, next) !== undefined ? '--json=' : word
    }
    const child = childOf(level, word)
    level = child?.kind === 'noun' ? child.children : child === undefined ? level : []
    return word
  })
}
