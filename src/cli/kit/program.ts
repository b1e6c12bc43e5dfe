import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander'
import { Args } from './args.ts'
import { type Command, type Noun, type Option, optionName, type Tree, takesValue } from './command.ts'
import { CliFailure, usage } from './failure.ts'
import { GLOBAL_FLAGS } from './flags.ts'
import { helpFor } from './help.ts'
import { bareHelp, knownPath, namedWords, nodeAt } from './help-request.ts'

/** What a command line means: a command with its values, or a text to print. */
export type Invocation =
  | { readonly kind: 'run'; readonly command: Command; readonly path: readonly string[]; readonly args: Args }
  | { readonly kind: 'help'; readonly text: string }

/** Reads a command line that asks for no help. Anything wrong with it throws a usage failure (exit 2) that may suggest, but never runs a guess. */
export function parse(tree: Tree, words: readonly string[]): Invocation {
  return parseNamed(tree, words) ?? parseWith(tree, words, true) ?? { kind: 'help', text: helpFor(tree, []) }
}

/** What a line means that is right: only what its words name is looked at, because to make all of it takes ten times as long. */
function parseNamed(tree: Tree, words: readonly string[]): Invocation | undefined {
  try {
    return parseWith(tree, words, false)
  } catch (error) {
    if (error instanceof CliFailure) return undefined // all names are needed to say what may have been meant
    throw error
  }
}

function parseWith(tree: Tree, words: readonly string[], all: boolean): Invocation | undefined {
  let result: Invocation | undefined
  const root = configure(new Commander('panel'), [])
  const shadowing = shadowedBy(commandOf(tree, words)).size > 0
  const wanted = { words: new Set(words), all, shadowing, found: (invocation: Invocation) => (result = invocation) }
  // Else the levels above would take the flag, wherever it stands, before the command sees it.
  if (shadowing) root.enablePositionalOptions()
  for (const node of shown(tree, wanted)) root.addCommand(build(node, [node.name], wanted))
  try {
    root.parse([...words], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.code === 'commander.help')
      return { kind: 'help', text: bareHelp(tree, words) }
    if (error instanceof CommanderError)
      throw usage(error.message.replace(/^error: /, '').replace(/\n/, ' '), hintFor(tree, words, error))
    throw error
  }
  return result
}

interface Wanted {
  readonly words: ReadonlySet<string>
  /** Whether what no word names is there by its name, for what is suggested. */
  readonly all: boolean
  /** Whether the command has options that are called like global flags. */
  readonly shadowing: boolean
  readonly found: (invocation: Invocation) => void
}

function build(node: Command | Noun, path: readonly string[], wanted: Wanted): Commander {
  const bare = new Commander(node.name).aliases([...(node.aliases ?? [])])
  if (!isNamed(node, wanted)) return bare
  const commander = configure(bare, node.kind === 'command' ? (node.options ?? []) : [])
  if (wanted.shadowing) commander.enablePositionalOptions()
  if (node.kind === 'noun') {
    for (const child of shown(node.children, wanted)) commander.addCommand(build(child, [...path, child.name], wanted))
    return commander
  }
  for (const argument of node.arguments ?? []) {
    const text = `${argument.name}${argument.many === true ? '...' : ''}`
    commander.argument(argument.optional === true ? `[${text}]` : `<${text}>`)
  }
  return commander.action(() => {
    const shadowed = shadowedBy(node)
    const globals = new Map([...shadowed].map((name) => [name, valuesOf(commander.parent).get(name)] as const))
    const own = valuesOf(commander, shadowed)
    wanted.found({ kind: 'run', command: node, path, args: new Args(own, wordsOf(node, commander), globals) })
  })
}

function shown(nodes: Tree, wanted: Wanted): Tree {
  return wanted.all ? nodes : nodes.filter((node) => isNamed(node, wanted))
}

/** A node that no word names is never run. */
function isNamed({ name, aliases }: Command | Noun, { words }: Wanted): boolean {
  return words.has(name) || aliases?.some((alias) => words.has(alias)) === true
}

/** Flags may stand anywhere, so each level knows the global ones. */
function configure(commander: Commander, own: readonly Option[]): Commander {
  commander.exitOverride().helpOption(false).helpCommand(false).allowExcessArguments(false)
  commander.configureOutput({ writeErr: () => {}, writeOut: () => {} })
  const names = new Set(own.map(({ flags }) => optionName(flags)))
  for (const option of [...own, ...GLOBAL_FLAGS.filter(({ flags }) => !names.has(optionName(flags)))]) {
    if (optionName(option.flags) === 'help') continue
    const made = toCommander(option)
    commander.addOption(made)
    if (takesValue(option.flags)) commander.on(`option:${made.name()}`, checkerOf(option))
  }
  return commander
}

/** Looks at each value of an option as it is read: an empty one is mostly a variable that is not set, and of two one is lost. */
function checkerOf(option: Option): (value: string | null) => void {
  const name = `--${optionName(option.flags)}`
  let given = false
  return (value) => {
    if (given && option.repeat !== true) throw usage(`${name} is given twice; it takes one value`)
    given = true
    // `--json` may stand alone.
    if (option.blank !== true && option.flags.includes('<') && value?.trim() === '') throw usage(`${name} is empty`)
  }
}

function toCommander(option: Option): CommanderOption {
  // An absent switch must stay absent: commander would make `--no-x` alone default to true.
  const made = new CommanderOption(option.flags).default(undefined)
  if (option.repeat === true)
    return made.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
  return option.choices === undefined ? made : made.choices(option.choices)
}

/** The global flags with a value that the command has options of its own for. */
function shadowedBy(node: Command | Noun | undefined): ReadonlySet<string> {
  const own = node?.kind === 'command' ? (node.options ?? []).map(({ flags }) => optionName(flags)) : []
  const valued = GLOBAL_FLAGS.filter(({ flags }) => takesValue(flags)).map(({ flags }) => optionName(flags))
  return new Set(valued.filter((name) => own.includes(name)))
}

function commandOf(tree: Tree, words: readonly string[]): Command | Noun | undefined {
  return nodeAt(tree, knownPath(tree, namedWords(words)))
}

/** The options of a level and of those above it; the nearest wins, and `lowestOnly` are read at that level alone. */
function valuesOf(lowest: Commander | null, lowestOnly: ReadonlySet<string> = new Set()): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>()
  for (let level = lowest; level !== null; level = level.parent) {
    for (const option of level.options) {
      const name = optionName(option.flags)
      const attribute = option.attributeName()
      if (level !== lowest && lowestOnly.has(name)) continue
      if (level.getOptionValueSource(attribute) !== 'cli') continue
      if (values.has(name)) {
        // Before and behind the command's name, which are levels of their own where an option shadows a global one.
        if (takesValue(option.flags)) throw usage(`--${name} is given twice; it takes one value`)
        continue
      }
      values.set(name, level.getOptionValue(attribute))
    }
  }
  return values
}

function wordsOf(command: Command, commander: Commander): ReadonlyMap<string, readonly string[]> {
  const words = new Map<string, readonly string[]>()
  command.arguments?.forEach((argument, i) => {
    const value: unknown = commander.processedArgs[i]
    const list = value === undefined ? [] : Array.isArray(value) ? value.map(String) : [String(value)]
    if (argument.blank !== true && list.some((word) => word.trim() === '')) throw usage(`<${argument.name}> is empty`)
    const wrong = argument.choices === undefined ? undefined : list.find((word) => !argument.choices?.includes(word))
    if (wrong !== undefined) {
      throw usage(`'${wrong}' is no ${argument.name}`, `one of ${argument.choices?.join(', ')}`)
    }
    words.set(argument.name, list)
  })
  return words
}

function hintFor(tree: Tree, words: readonly string[], error: CommanderError): string {
  const path = knownPath(
    tree,
    words.filter((word) => !word.startsWith('-')),
  )
  const agreed = error.code === 'commander.unknownOption' && /'(-y|--yes)'/.test(error.message)
  const node = agreed ? nodeAt(tree, path) : undefined
  const destroys = node?.kind === 'command' && node.options?.some(({ flags }) => flags.startsWith('--confirm '))
  if (destroys) return '--confirm <name>: what destroys data is agreed to by name'
  return ['panel', ...path, '--help'].join(' ')
}
