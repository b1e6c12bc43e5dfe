import type { EggNote } from '../api/template-eggs.ts'
import { GIVEN_VARIABLES, placeholdersIn, placeholderVariable } from '../kernel/placeholders.ts'
import { ConfigFile, ConfigParser, ConfigSetting, MOST_SETTINGS } from '../protocol/config-files.ts'
import type { PatternBudget } from './bounded-pattern.ts'
import { DocumentProblem, isObject, readJson } from './document.ts'
import { patternProblem } from './template-problems.ts'

/** Takes a note about a field of an egg. */
export type Note = (kind: EggNote['kind'], field: string, message: string) => void

/** A value of an egg that is JSON in a text, or what that JSON says; an empty one is `{}`. Throws a DocumentProblem. */
export function jsonField(value: unknown): unknown {
  if (typeof value !== 'string') return value ?? {}
  return value.trim() === '' ? {} : readJson(value)
}

/** What the configuration files of an egg are read with. */
export interface ConfigFilesContext {
  /** Variables that have another name here. */
  readonly renamed: ReadonlyMap<string, string>
  /** What placeholders may name. */
  readonly variables: ReadonlySet<string>
  readonly budget: PatternBudget
  readonly note: Note
}

/** The configuration files of an egg. What cannot be used of them is noted. Throws a DocumentProblem. */
export function eggConfigFiles(value: unknown, context: ConfigFilesContext): ConfigFile[] {
  const { note } = context
  const files = jsonField(value)
  if (Array.isArray(files) && files.length === 0) return []
  if (!isObject(files)) throw new DocumentProblem('must be an object of files')
  const found = Object.entries(files).flatMap(([path, file]) => {
    const field = `config.files.${path.slice(0, 200)}`
    const made = isObject(file) ? fileOf(path, file, { ...context, field }) : undefined
    if (made === undefined && !isObject(file)) note('unused', field, 'is no description of a file')
    return made === undefined ? [] : [made]
  })
  const once = new Map<string, ConfigFile>()
  for (const file of found) {
    const before = once.get(file.path)
    if (before !== undefined)
      note('unused', `config.files.${file.path}`, 'is listed more than once; the last one counts')
    once.set(file.path, file)
  }
  if (once.size > MOST_FILES) note('unused', 'config.files', `has ${once.size} files; the first ${MOST_FILES} are kept`)
  return [...once.values()].slice(0, MOST_FILES)
}

const MOST_FILES = 50

interface At extends ConfigFilesContext {
  readonly field: string
}

function fileOf(path: string, file: Readonly<Record<string, unknown>>, at: At): ConfigFile | undefined {
  const { field, note } = at
  const parser = ConfigParser.safeParse(file['parser'] === 'yml' ? 'yaml' : file['parser'])
  if (!parser.success) {
    note('unused', `${field}.parser`, `is no parser of this panel: ${String(file['parser']).slice(0, 50)}`)
    return undefined
  }
  const find = file['find']
  if (!isObject(find)) note('unused', `${field}.find`, 'must be an object of keys and values')
  const set = Object.entries(isObject(find) ? find : {}).flatMap(([key, value]) =>
    entriesOf(key, value, at).filter((one) => isKept(one, at)),
  )
  if (set.length > MOST_SETTINGS)
    note('unused', `${field}.find`, `has ${set.length} values; the first ${MOST_SETTINGS} are kept`)
  const inside = path.replace(/^(?:\.?\/)+/, '')
  const made = ConfigFile.safeParse({
    path: inside,
    parser: parser.data,
    create: file['create_file'] !== false,
    set: set.slice(0, MOST_SETTINGS),
  })
  if (made.success) return made.data
  const [issue] = made.error.issues
  note('unused', field, `cannot be kept: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`)
  return undefined
}

/** A value that cannot be kept is left out alone: the others of its file are of use without it. */
function isKept(one: ConfigFile['set'][number], { field, note }: At): boolean {
  const checked = ConfigSetting.safeParse(one)
  if (checked.success) return true
  const [issue] = checked.error.issues
  const what = `cannot be kept: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`
  note('unused', `${field}.find.${one.key.slice(0, 200)}`, what)
  return false
}

/** One key; with an object for a value, one entry for each present value that is replaced. */
function entriesOf(key: string, value: unknown, at: At): ConfigFile['set'] {
  if (!isObject(value)) return entry(key, value, at)
  return Object.entries(value).flatMap(([ifValue, to]) => {
    const pattern = ifValue.startsWith(REGEX) ? ifValue.slice(REGEX.length) : undefined
    const problem = pattern === undefined ? undefined : patternProblem(pattern, at.budget)
    if (problem === undefined) return entry(key, to, at).map((one) => ({ ...one, ifValue }))
    at.note('unused', `${at.field}.find.${key.slice(0, 200)}`, `${problem}; nothing is replaced by it`)
    return []
  })
}

function entry(key: string, value: unknown, { field, renamed, variables, note }: At): ConfigFile['set'] {
  if (typeof value === 'string') {
    const text = withNames(value, renamed)
    const unknown = placeholdersIn(text).filter((name) => !isKnown(name, variables))
    if (unknown.length > 0) note('warning', `${field}.find.${key.slice(0, 200)}`, namesNothing(unknown))
    return [{ key, value: text }]
  }
  if (typeof value === 'number' || typeof value === 'boolean' || value === null) return [{ key, value }]
  note('unused', `${field}.find.${key.slice(0, 200)}`, 'is a list or an object; a value is a text, a number or a truth')
  return []
}

const REGEX = 'regex:'
/** What an agent knows beside the variables of a server. */
const OF_NODE: ReadonlySet<string> = new Set(['config.docker.interface', 'config.docker.network.interface'])

function isKnown(name: string, variables: ReadonlySet<string>): boolean {
  const variable = placeholderVariable(name)
  return OF_NODE.has(name) || variables.has(variable) || GIVEN_VARIABLES.has(variable)
}

/** What is said of placeholders that nothing stands for. */
export function namesNothing(names: readonly string[]): string {
  return `names no variable of the egg, and becomes nothing: ${[...new Set(names)].slice(0, 20).join(', ')}`
}

/** Placeholders of variables that have another name here. */
function withNames(value: string, renamed: ReadonlyMap<string, string>): string {
  if (renamed.size === 0) return value
  return value.replace(/\{\{([^{}]{1,200})\}\}/g, (whole, name: string) => {
    const other = renamed.get(placeholderVariable(name.trim()))
    return other === undefined ? whole : `{{${other}}}`
  })
}
