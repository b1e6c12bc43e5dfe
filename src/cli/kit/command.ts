import type { Run } from './run.ts'

/** What a word of the command line stands for; completion offers the live ones. */
export type Reference =
  | 'server'
  | 'node'
  | 'location'
  | 'nest'
  | 'template'
  | 'user'
  | 'role'
  | 'apiKey'
  | 'alertRule'
  | 'webhook'
  | 'backupPolicy'
  | 'backupStore'
  | 'databaseHost'
  | 'ipPool'
  | 'context'

/** How the text of an option becomes a value of a request's body. */
export type FieldKind = 'text' | 'int' | 'number' | 'mib' | 'seconds' | 'boolean' | 'list' | 'pairs'

/** One flag of a command. */
export interface Option {
  /** As people write it: `--tail <n>`, `-f, --follow`, `--no-wait`. */
  readonly flags: string
  readonly summary: string
  /** The request cannot do without it: it is given as this flag or, where the command takes one, in the file of `-F`. */
  readonly required?: true
  readonly choices?: readonly string[]
  /** May be given several times; its values are a list. */
  readonly repeat?: true
  /** The field of the request's body or query that it fills, and how. */
  readonly field?: string
  readonly as?: FieldKind
  /** The field that the command fills from it in a way of its own, so that refusals name this flag. */
  readonly fills?: string
  /** What is typed for parts of that field, where they have other names there. */
  readonly typed?: Readonly<Record<string, string>>
  /** The value names one of these; it is resolved to the id. */
  readonly ref?: Reference
  /** The value is text that may be empty or blank: it clears what is set, or stands for itself. Others are refused then. */
  readonly blank?: true
}

/** One positional word. Only the last may be `many`. */
export interface Argument {
  readonly name: string
  readonly summary: string
  readonly optional?: true
  readonly many?: true
  readonly choices?: readonly string[]
  readonly ref?: Reference
  /** Text that may be empty or blank. Other words are refused then: a script's unset variable must name nothing. */
  readonly blank?: true
}

/** What a command does; a number is the exit code, nothing is 0. */
export type Action = (run: Run) => Promise<number | undefined> | Promise<void>

/** A command: light data, so that help needs nothing else. Its action is loaded when it runs. */
export interface Command {
  readonly kind: 'command'
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary: string
  /** Further paragraphs of the help. */
  readonly details?: string
  readonly arguments?: readonly Argument[]
  readonly options?: readonly Option[]
  /** Command lines without the prompt; at least one. */
  readonly examples: readonly [string, ...string[]]
  /** The ids of the endpoints that it stands for. */
  readonly endpoints?: readonly string[]
  /** Exit codes beside 0, 1, 2, 4, 5 and 13. */
  readonly exits?: readonly number[]
  readonly hidden?: true
  readonly group?: Group
  /** It handles SIGINT and SIGTERM itself. */
  readonly ownsSignals?: true
  /** Long text: on a terminal it goes through the pager of PANEL_PAGER or PAGER. */
  readonly paged?: true
  readonly load: () => Promise<Action>
}

/** A word that has commands below it. */
export interface Noun {
  readonly kind: 'noun'
  readonly name: string
  readonly aliases?: readonly string[]
  readonly summary: string
  readonly group: Group
  readonly children: readonly (Command | Noun)[]
}

/** The commands and nouns of the first level. */
export type Tree = readonly (Command | Noun)[]

/** The headings of the first help page, in this order. */
export const GROUPS = ['Core', 'Administration', 'Host', 'Tooling'] as const
export type Group = (typeof GROUPS)[number]

/** Declares a command. */
export function command(definition: Omit<Command, 'kind'>): Command {
  return { kind: 'command', ...definition }
}

/** Declares a noun. */
export function noun(definition: Omit<Noun, 'kind'>): Noun {
  return { kind: 'noun', ...definition }
}

/** Every command below a node with the words that lead to it. */
export function* walk(
  nodes: readonly (Command | Noun)[],
  path: readonly string[] = [],
): Generator<{ readonly path: readonly string[]; readonly command: Command }> {
  for (const node of nodes) {
    const here = [...path, node.name]
    if (node.kind === 'command') yield { path: here, command: node }
    else yield* walk(node.children, here)
  }
}

/** The child that a word names, by its name or an alias. */
export function childOf(nodes: readonly (Command | Noun)[], word: string): Command | Noun | undefined {
  return nodes.find((node) => node.name === word || node.aliases?.includes(word) === true)
}

/** The long name of an option, without dashes and `no-`: `--no-wait` → `wait`. */
export function optionName(flags: string): string {
  const long = /--(?:no-)?([a-z][a-z0-9-]*)/.exec(flags)
  return long?.[1] ?? ''
}

/** Whether the option takes a value. */
export function takesValue(flags: string): boolean {
  return /[<[]/.test(flags)
}
