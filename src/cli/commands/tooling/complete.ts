import { isUnsafe, oneLine } from '../../../shared/kernel/terminal-text.ts'
import {
  type Action,
  type Argument,
  type Command,
  childOf,
  type Noun,
  type Option,
  optionName,
  type Reference,
  type Tree,
  takesValue,
} from '../../kit/command.ts'
import { GLOBAL_FLAGS } from '../../kit/flags.ts'
import type { Run } from '../../kit/run.ts'

/** What may stand in the place of the unfinished word, with a word about it. */
type Choice = readonly [word: string, about: string]

/** `panel __complete -- <words…>`: one choice a line, `word<TAB>about`. Silent on every failure. */
export const complete: Action = async (run) => {
  const words = run.args.words('words')
  const unfinished = words.at(-1) ?? ''
  const choices = await choicesFor(run, words.slice(0, -1), unfinished)
  // A shell would take a name with a line end for two.
  const fitting = choices.filter(([word]) => word.startsWith(unfinished) && !isUnsafe(word))
  await run.out.text(fitting.map(([word, about]) => `${word}\t${oneLine(about)}\n`).join(''))
}

async function choicesFor(run: Run, before: readonly string[], unfinished: string): Promise<readonly Choice[]> {
  const tree = await run.tree()
  const place = placeOf(tree, before)
  if (place.awaited !== undefined) return valuesOf(run, place.awaited, unfinished)
  if (unfinished.startsWith('-') && !place.isPastFlags) return flagsOf(place.node)
  const { node } = place
  if (node === undefined || node.kind === 'noun') {
    const children = node?.children ?? tree
    return children
      .filter((child) => !(child.kind === 'command' && child.hidden))
      .map(({ name, summary }) => [name, summary] as const)
  }
  const argument = argumentAt(node, place.position)
  return argument === undefined ? [] : valuesOf(run, argument, unfinished)
}

interface Place {
  readonly node: Command | Noun | undefined
  /** The option whose value comes next. */
  readonly awaited: Option | undefined
  /** How many positional words of the command are there already. */
  readonly position: number
  /** Whether `--` stands before: what follows is no flag. */
  readonly isPastFlags: boolean
}

function placeOf(tree: Tree, before: readonly string[]): Place {
  let node: Command | Noun | undefined
  let awaited: Option | undefined
  let position = 0
  let isPastFlags = false
  for (const word of before) {
    if (awaited !== undefined) {
      awaited = undefined
    } else if (word === '--' && !isPastFlags) {
      isPastFlags = true
    } else if (word.startsWith('-') && !isPastFlags) {
      const option = optionsOf(node).find(({ flags }) => flags.split(/[ ,]+/).includes(word))
      awaited = option !== undefined && /<[^<>]+>/.test(option.flags) ? option : undefined
    } else if (node?.kind === 'command') {
      position += 1
    } else {
      node = childOf(node?.children ?? tree, word) ?? node
    }
  }
  return { node, awaited, position, isPastFlags }
}

function argumentAt(command: Command, position: number): Argument | undefined {
  const all = command.arguments ?? []
  const last = all.at(-1)
  return all[position] ?? (last?.many === true ? last : undefined)
}

function optionsOf(node: Command | Noun | undefined): readonly Option[] {
  return [...(node?.kind === 'command' ? (node.options ?? []) : []), ...GLOBAL_FLAGS]
}

function flagsOf(node: Command | Noun | undefined): readonly Choice[] {
  return optionsOf(node).flatMap(({ flags, summary }): Choice[] => {
    const long = /--[a-z-]+/.exec(flags)?.[0]
    return long === undefined ? [] : [[long, summary]]
  })
}

async function valuesOf(run: Run, of: Option | Argument, unfinished: string): Promise<readonly Choice[]> {
  if (of.choices !== undefined) return of.choices.map((word) => [word, ''] as const)
  const ref = of.ref ?? globalRef(of)
  if (ref === undefined) return []
  const { liveNames } = await import('./live-names.ts')
  return liveNames(run, ref, unfinished)
}

/** `--context` is a global flag and names a context. */
function globalRef(of: Option | Argument): Reference | undefined {
  return 'flags' in of && optionName(of.flags) === 'context' && takesValue(of.flags) ? 'context' : undefined
}
