import { type Argument, type FieldKind, type Option, optionName, type Reference } from './command.ts'

/** The flags of every list. */
export const LIST: readonly Option[] = [
  { flags: '-L, --limit <n>', summary: 'rows per page (default 50)' },
  { flags: '--page <n>', summary: 'which page (default 1)' },
  { flags: '--all', summary: 'walk all pages' },
]

/** Free-text search of a list. */
export const SEARCH: Option = {
  flags: '--search <text>',
  summary: 'only rows whose name contains the text',
  field: 'search',
}

/** The body as a file. */
export const BODY_FILE: Option = {
  flags: '-F, --file <file>',
  summary: 'take the body from a YAML or JSON file, - is stdin',
}

/** Agreement in advance. */
export const YES: Option = { flags: '-y, --yes', summary: 'do not ask' }

/** The flags of a deletion. */
export const DELETE: readonly Option[] = [YES, { flags: '--ignore-not-found', summary: 'exit 0 when it is not there' }]

/** Waiting for the outcome of an order. */
export const WAIT: readonly Option[] = [
  { flags: '--wait', summary: 'wait for the outcome (default on a terminal)' },
  { flags: '--no-wait', summary: 'return as soon as the order is accepted' },
  { flags: '--timeout <duration>', summary: 'how long to wait (default 10m); exit 124 when it passes' },
]

/** A safe key for a repeated call. */
export const IDEMPOTENCY: Option = {
  flags: '--idempotency-key <key>',
  summary: 'makes a repetition harmless (default: a new one for each run)',
}

/** An option that fills a field of the body. */
export function field(flags: string, summary: string, name: string, as: FieldKind = 'text'): Option {
  return { flags, summary, field: name, as, ...(as === 'pairs' || as === 'list' ? { repeat: true as const } : {}) }
}

/** An option that fills a field with text of people, which an empty value clears. */
export function prose(flags: string, summary: string, name: string): Option {
  return { ...field(flags, summary, name), blank: true }
}

/** An option that names something by id or name and fills a field with its id. */
export function reference(flags: string, summary: string, name: string, ref: Reference): Option {
  return { flags, summary, field: name, ref }
}

/** The same options for a creation, which cannot do without those that are named (in a file of `-F` or as flags). */
export function requiring(options: readonly Option[], ...names: readonly string[]): readonly Option[] {
  return options.map((option) => (names.includes(optionName(option.flags)) ? required(option) : option))
}

/** The same option where the request cannot do without it. */
export function required(option: Option): Option {
  return { ...option, required: true }
}

/** The positional word for one thing. */
export function one(ref: Reference, name: string = ref): Argument {
  return { name, summary: `${describe(ref)}: id, beginning of the id, or name`, ref }
}

/** The positional words for several things. */
export function several(ref: Reference, name: string = ref): Argument {
  return { ...one(ref, name), many: true }
}

function describe(ref: Reference): string {
  if (ref === 'alertRule') return 'alert rule'
  if (ref === 'apiKey') return 'API key'
  if (ref === 'backupPolicy') return 'backup policy'
  if (ref === 'backupStore') return 'backup store'
  if (ref === 'databaseHost') return 'database host'
  return ref === 'ipPool' ? 'IP pool' : ref
}
