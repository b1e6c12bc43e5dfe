import { choicesNote } from './choices-note.ts'
import { type Argument, type Command, childOf, GROUPS, type Noun, type Option, type Tree } from './command.ts'
import { GLOBAL_FLAGS } from './flags.ts'

/** The help of the node at the end of `path`: examples first. */
export function helpFor(tree: Tree, path: readonly string[]): string {
  let level: Tree = tree
  let node: Command | Noun | undefined
  for (const word of path) {
    node = childOf(level, word)
    level = node?.kind === 'noun' ? node.children : []
  }
  if (node === undefined) return rootHelp(tree)
  return node.kind === 'noun' ? nounHelp(node, path) : commandHelp(node, path)
}

/** How a command is called: `panel servers power <action> <server...> [flags]`. */
export function usageLine(command: Command, path: readonly string[]): string {
  return ['panel', ...path, ...(command.arguments ?? []).map(placeholder), '[flags]'].join(' ')
}

/** `<server...>`, `[path]`. */
export function placeholder(argument: Argument): string {
  const text = `${argument.name}${argument.many === true ? '...' : ''}`
  return argument.optional === true ? `[${text}]` : `<${text}>`
}

function rootHelp(tree: Tree): string {
  const groups = GROUPS.map((group) => {
    const nodes = tree.filter((node) => node.group === group && !(node.kind === 'command' && node.hidden))
    return `${group}:\n${rows(nodes.map((node) => [node.name, node.summary]))}`
  })
  return [
    'panel runs game servers: the panel itself, its agents, and the commands for both.',
    `Examples:\n${examples(['panel up', 'panel servers list', 'panel console attach demo'])}`,
    ...groups,
    'More: panel <command> --help · panel help flags for the flags that every command takes.\n',
  ].join('\n')
}

function nounHelp(noun: Noun, path: readonly string[]): string {
  const first = noun.children.flatMap((child) => (child.kind === 'command' && !child.hidden ? [child.examples[0]] : []))
  const list = noun.children.flatMap((child): [string, string][] => {
    if (child.kind === 'command') return child.hidden ? [] : [[callOf(child), child.summary]]
    return child.children.map((below) => [`${child.name} ${below.name}`, below.summary])
  })
  return [
    `${noun.summary}.`,
    `Examples:\n${examples(first.slice(0, 4))}`,
    `Commands:\n${rows(list)}`,
    `More: panel ${path.join(' ')} <command> --help\n`,
  ].join('\n')
}

function commandHelp(command: Command, path: readonly string[]): string {
  const parts = [
    `${command.summary}.`,
    `Examples:\n${examples(command.examples)}`,
    `Usage:\n  ${usageLine(command, path)}\n`,
  ]
  if (command.details !== undefined) parts.push(`${wrap(command.details, LINE).join('\n')}\n`)
  const words = command.arguments ?? []
  if (words.length > 0) parts.push(`Arguments:\n${rows(words.map((word) => [word.name, describe(word)]))}`)
  const own = command.options ?? []
  if (own.length > 0) parts.push(`Flags:\n${rows(own.map((option) => [indented(option), describe(option)]))}`)
  if (command.aliases !== undefined) parts.push(`Also: ${command.aliases.join(', ')}\n`)
  const exits = command.exits ?? []
  if (exits.length > 0) parts.push(`Exit codes beside 0, 1, 2, 4, 5, 13: ${exits.join(', ')}\n`)
  return [...parts, 'Flags of every command: panel help flags\n'].join('\n')
}

/** The page of the global flags. */
export function flagsHelp(): string {
  return `Flags of every command, at any place of the line:\n${rows(GLOBAL_FLAGS.map((option) => [indented(option), describe(option)]))}`
}

function callOf(command: Command): string {
  return [command.name, ...(command.arguments ?? []).map(placeholder)].join(' ')
}

function describe(of: {
  readonly summary: string
  readonly required?: true
  readonly choices?: readonly string[]
  readonly repeat?: true
}): string {
  const needed = of.required === true ? ' (required)' : ''
  return `${of.summary}${needed}${choicesNote(of.summary, of.choices)}${of.repeat === true ? '; may be repeated' : ''}`
}

/** Long flags line up whether or not there is a short one. */
function indented(option: Option): string {
  return option.flags.startsWith('--') ? `    ${option.flags}` : option.flags
}

function examples(lines: readonly string[]): string {
  return lines.map((line) => `  ${line}\n`).join('')
}

const LINE = 100

function rows(pairs: readonly (readonly [string, string])[]): string {
  const width = Math.min(34, Math.max(0, ...pairs.map(([left]) => left.length)))
  return pairs
    .map(([left, right]) => {
      const gap = left.length > width ? `\n${' '.repeat(width + 4)}` : ' '.repeat(width + 2 - left.length)
      return `  ${left}${gap}${wrap(right, LINE - width - 4).join(`\n${' '.repeat(width + 4)}`)}\n`
    })
    .join('')
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else {
      line = line === '' ? word : `${line} ${word}`
    }
  }
  return [...lines, line]
}
