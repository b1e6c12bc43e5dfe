import { type AST, parseTOML } from 'toml-eslint-parser'
import type { ConfigValue } from '../../shared/protocol/config-files.ts'
import { ConfigFileProblem } from './config-file-problem.ts'
import { refuseDeepBrackets } from './nesting.ts'
import { lineEnd } from './plain-lines.ts'
import { replacement, type Setting } from './setting.ts'
import { typedValue } from './typed-value.ts'
import { EVERY, type Step, stepsOf } from './value-path.ts'

type Place = readonly (string | number)[]

/** A change of the text; those at one offset follow each other. */
interface Edit {
  readonly from: number
  readonly to: number
  readonly by: string
}

/** Sets values of a TOML file where they stand: comments, order and all other text stay. Absent keys and tables are added. */
export function changeToml(text: string, settings: readonly Setting[]): string {
  const top = parsed(text)
  const values = new Map(valuesOf(top).map((one) => [JSON.stringify(one.place), one]))
  const edits: Edit[] = []
  const added = new Map<string, string[]>()
  for (const setting of settings) {
    const steps = stepsOf(setting.key)
    const found = [...values.values()].filter(({ place }) => isAt(place, steps))
    for (const { node } of found) {
      if (node.type !== 'TOMLValue') throw new ConfigFileProblem(`has a table or a list at ${setting.key}`)
      const value = replacement(setting, textOf(node))
      if (value !== undefined) edits.push({ from: node.range[0], to: node.range[1], by: literal(value, node) })
    }
    if (found.length > 0 || steps.includes(EVERY)) continue
    const value = replacement(setting, undefined)
    if (value === undefined) continue
    const [key = '', ...table] = steps.map(String).toReversed()
    const name = table.toReversed()
    for (let length = 1; length < steps.length; length++) {
      const above = values.get(JSON.stringify(steps.slice(0, length)))
      if (above !== undefined)
        throw new ConfigFileProblem(`has no room for ${setting.key}: ${name.join('.')} is no table`)
    }
    if (steps.some((step) => typeof step === 'number')) throw new ConfigFileProblem(`has no place ${setting.key}`)
    const line = `${bare(key)} = ${literal(value, undefined)}`
    added.set(JSON.stringify(name), [...(added.get(JSON.stringify(name)) ?? []), line])
  }
  const end = lineEnd(text)
  for (const [name, lines] of added)
    edits.push(insertion(top, text, { table: JSON.parse(name) as string[], lines, end })) // written above
  const after = applied(text, edits)
  if (added.size > 0) refuseTwice(after, added)
  return after
}

/** A table that stands there by dotted keys, or as one of a list, cannot be given another header. */
function refuseTwice(after: string, added: ReadonlyMap<string, unknown>): void {
  try {
    parseTOML(after, { tomlVersion: '1.0' })
  } catch {
    // Their names were written above.
    const names = [...added.keys()]
      .map((name) => (JSON.parse(name) as string[]).join('.'))
      .filter((name) => name !== '')
    throw new ConfigFileProblem(
      `has no room for more keys of ${names.join(', ')}: it is no table with a header of its own`,
    )
  }
}

function parsed(text: string): AST.TOMLTopLevelTable {
  refuseDeepBrackets(text)
  try {
    return parseTOML(text, { tomlVersion: '1.0' }).body[0]
  } catch (error) {
    throw new ConfigFileProblem(`is not valid TOML: ${error instanceof Error ? error.message.slice(0, 200) : ''}`)
  }
}

function valuesOf(top: AST.TOMLTopLevelTable): { place: Place; node: AST.TOMLContentNode }[] {
  return top.body.flatMap((item) => {
    return item.type === 'TOMLTable' ? item.body.flatMap((pair) => within(item.resolvedKey, pair)) : within([], item)
  })
}

function within(table: Place, { key, value }: AST.TOMLKeyValue): { place: Place; node: AST.TOMLContentNode }[] {
  return below([...table, ...namesOf(key)], value)
}

function below(place: Place, node: AST.TOMLContentNode): { place: Place; node: AST.TOMLContentNode }[] {
  if (node.type === 'TOMLInlineTable') return [{ place, node }, ...node.body.flatMap((pair) => within(place, pair))]
  if (node.type === 'TOMLArray') {
    return [{ place, node }, ...node.elements.flatMap((element, index) => below([...place, index], element))]
  }
  return [{ place, node }]
}

function namesOf({ keys }: AST.TOMLKey): string[] {
  return keys.map((key) => (key.type === 'TOMLBare' ? key.name : key.value))
}

function isAt(place: Place, steps: readonly Step[]): boolean {
  return place.length === steps.length && steps.every((step, index) => step === EVERY || step === place[index])
}

function textOf(node: AST.TOMLValue): string {
  return node.kind === 'string' || node.kind === 'boolean'
    ? String(node.value)
    : 'number' in node
      ? node.number
      : node.datetime
}

/** A number keeps the kind that stood there: `1` for a float is `1.0`. */
function literal(value: ConfigValue, node: AST.TOMLValue | undefined): string {
  const typed = typedValue(value, node?.kind === 'integer' || node?.kind === 'float' ? 0 : node?.value)
  if (typeof typed === 'boolean') return String(typed)
  if (typeof typed === 'number' && Number.isFinite(typed)) {
    return node?.kind === 'float' && Number.isInteger(typed) ? `${typed}.0` : String(typed)
  }
  return JSON.stringify(String(typed ?? '')).replace(/\x7f/g, '\\u007f')
}

function bare(key: string): string {
  return /^[A-Za-z0-9_-]+$/.test(key) ? key : JSON.stringify(key)
}

interface Addition {
  readonly table: readonly string[]
  readonly lines: readonly string[]
  readonly end: string
}

/** Behind the last key of the table, or as a new table at the end. */
function insertion(top: AST.TOMLTopLevelTable, text: string, { table, lines, end }: Addition): Edit {
  const header = top.body.find((item): item is AST.TOMLTable => {
    return item.type === 'TOMLTable' && item.kind === 'standard' && item.resolvedKey.join('\0') === table.join('\0')
  })
  const block = lines.map((line) => line + end).join('')
  if (table.length === 0) {
    const last = top.body.filter((item) => item.type === 'TOMLKeyValue').at(-1)
    return last === undefined ? { from: 0, to: 0, by: block } : behind(text, last.range[1], { block, end })
  }
  if (header !== undefined) return behind(text, header.body.at(-1)?.range[1] ?? header.range[1], { block, end })
  const start = text === '' || text.endsWith('\n') ? '' : end
  return { from: text.length, to: text.length, by: `${start}[${table.map(bare).join('.')}]${end}${block}` }
}

function behind(text: string, offset: number, { block, end }: { block: string; end: string }): Edit {
  const next = text.indexOf('\n', offset)
  return next === -1
    ? { from: text.length, to: text.length, by: end + block }
    : { from: next + 1, to: next + 1, by: block }
}

function applied(text: string, edits: readonly Edit[]): string {
  const ordered = edits.map((edit, index) => ({ ...edit, index })).sort((a, b) => a.from - b.from || a.index - b.index)
  let out = ''
  let at = 0
  for (const { from, to, by } of ordered) {
    // Of several changes of one value the first holds.
    if (from < at) continue
    out += text.slice(at, from) + by
    at = to
  }
  return out + text.slice(at)
}
