import { Command as Commander, CommanderError, Option as CommanderOption } from 'commander'
import { Args } from './args.ts'
import { type Command, type Noun, type Option, optionName } from './command.ts'
import { usage } from './failure.ts'
import { GLOBAL_FLAGS } from './flags.ts'
import { helpFor } from './help.ts'
import { bareHelp, knownPath } from './help-request.ts'

/** What a command line means: a command with its values, or a text to print. */
export type Invocation =
  | { readonly kind: 'run'; readonly command: Command; readonly path: readonly string[]; readonly args: Args }
  | { readonly kind: 'help'; readonly text: string }

type Tree = readonly (Command | Noun)[]

/** Reads a command line that asks for no help. Anything wrong with it throws a usage failure (exit 2) that may suggest, but never runs a guess. */
export function parse(tree: Tree, words: readonly string[]): Invocation {
  let result: Invocation | undefined
  const root = configure(new Commander('panel'), [])
  const wanted = { words: new Set(words), found: (invocation: Invocation) => (result = invocation) }
  for (const node of tree) root.addCommand(build(node, [node.name], wanted))
  try {
    root.parse([...words], { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError && error.code === 'commander.help')
      return { kind: 'help', text: bareHelp(tree, words) }
    if (error instanceof CommanderError)
      throw usage(error.message.replace(/^error: /, '').replace(/\n/, ' '), hintFor(tree, words))
    throw error
  }
  return result ?? { kind: 'help', text: helpFor(tree, []) }
}

interface Wanted {
  readonly words: ReadonlySet<string>
  readonly found: (invocation: Invocation) => void
}

function build(node: Command | Noun, path: readonly string[], wanted: Wanted): Commander {
  const names = [node.name, ...(node.aliases ?? [])]
  const bare = new Commander(node.name).aliases(names.slice(1))
  // A node that no word names is never run: its name is enough, for what is suggested. To build all costs 100 ms.
  if (!names.some((name) => wanted.words.has(name))) return bare
  const commander = configure(bare, node.kind === 'command' ? (node.options ?? []) : [])
  if (node.kind === 'noun') {
    for (const child of node.children) commander.addCommand(build(child, [...path, child.name], wanted))
    return commander
  }
  for (const argument of node.arguments ?? []) {
    const text = `${argument.name}${argument.many === true ? '...' : ''}`
    commander.argument(argument.optional === true ? `[${text}]` : `<${text}>`)
  }
  return commander.action(() => {
    wanted.found({ kind: 'run', command: node, path, args: new Args(optionsOf(commander), wordsOf(node, commander)) })
  })
}

/** Flags may stand anywhere, so each level knows the global ones. */
function configure(commander: Commander, own: readonly Option[]): Commander {
  commander.exitOverride().helpOption(false).helpCommand(false).allowExcessArguments(false)
  commander.configureOutput({ writeErr: () => {}, writeOut: () => {} })
  const names = new Set(own.map(({ flags }) => optionName(flags)))
  for (const option of [...own, ...GLOBAL_FLAGS.filter(({ flags }) => !names.has(optionName(flags)))]) {
    if (optionName(option.flags) !== 'help') commander.addOption(toCommander(option))
  }
  return commander
}

function toCommander(option: Option): CommanderOption {
  // An absent switch must stay absent: commander would make `--no-x` alone default to true.
  const made = new CommanderOption(option.flags).default(undefined)
  if (option.repeat === true)
    return made.argParser((value: string, before: string[] | undefined) => [...(before ?? []), value])
  return option.choices === undefined ? made : made.choices(option.choices)
}

/** The options of the command and of the levels above it; the nearest wins. */
function optionsOf(commander: Commander): ReadonlyMap<string, unknown> {
  const values = new Map<string, unknown>()
  for (let level: Commander | null = commander; level !== null; level = level.parent) {
    for (const option of level.options) {
      const name = optionName(option.flags)
      const attribute = option.attributeName()
      if (level.getOptionValueSource(attribute) !== 'cli' || values.has(name)) continue
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
    const wrong = argument.choices === undefined ? undefined : list.find((word) => !argument.choices?.includes(word))
    if (wrong !== undefined) {
      throw usage(`'${wrong}' is no ${argument.name}`, `one of ${argument.choices?.join(', ')}`)
    }
    words.set(argument.name, list)
  })
  return words
}

function hintFor(tree: Tree, words: readonly string[]): string {
  const path = knownPath(
    tree,
    words.filter((word) => !word.startsWith('-')),
  )
  return ['panel', ...path, '--help'].join(' ')
}
