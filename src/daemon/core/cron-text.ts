import { Cron } from 'croner'

/** A cron text that can be used. */
export interface CronText {
  /** Five fields as croner reads them. */
  readonly pattern: string
  /** Its minute or its hour begins with `*`: it follows the clock as that passes, and is no list of set times. */
  readonly isRepeating: boolean
}

/** Why a cron text is refused, with the field of it. */
export interface CronProblem {
  readonly problem: string
}

interface Field {
  readonly name: string
  readonly from: number
  readonly to: number
  /** Three letters each, from `from` on. */
  readonly names: readonly string[]
  /** What else croner reads there, such as the last day of a month. */
  readonly further: RegExp | undefined
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']

const FIELDS: readonly Field[] = [
  { name: 'minute', from: 0, to: 59, names: [], further: undefined },
  { name: 'hour', from: 0, to: 23, names: [], further: undefined },
  { name: 'day of month', from: 1, to: 31, names: [], further: /^(?:L|LW|(?:[1-9]|[12]\d|3[01])W)$/i },
  { name: 'month', from: 1, to: 12, names: MONTHS, further: undefined },
  // 0 and 7 are Sunday.
  { name: 'day of week', from: 0, to: 7, names: WEEKDAYS, further: /^(?:[0-7]|[a-z]{3})(?:L|#[1-5])$/i },
]

/** What the usual names stand for. */
const NAMED: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
}

/**
 * Reads a cron text of five fields: numbers, lists, ranges (also over the end: `22-6`), steps, names of months and days, `?` for
 * `*`, `L`, `W` and `#` where croner knows them, and names such as `@daily`. Times of it may still never come.
 */
export function readCron(text: string): CronText | CronProblem {
  const trimmed = text.trim()
  if (trimmed.startsWith('@')) {
    const pattern = NAMED[trimmed.toLowerCase()]
    if (pattern !== undefined) return { pattern, isRepeating: isRepeating(pattern.split(' ')) }
    return { problem: `there is no '${shown(trimmed)}', but ${Object.keys(NAMED).join(', ')}` }
  }
  const words = trimmed.split(/\s+/)
  if (words.length !== FIELDS.length) {
    const advice = words.length === 6 || words.length === 7 ? '; seconds and years are not part of it' : ''
    return {
      problem: `minute, hour, day of month, month, day of week are five, not ${words.length}${advice}`,
    }
  }
  const fields: string[] = []
  for (const [index, field] of FIELDS.entries()) {
    const read = readField(field, words[index] ?? '')
    if (typeof read !== 'string') return read
    fields.push(read)
  }
  const pattern = fields.join(' ')
  try {
    new Cron(pattern, { paused: true, mode: '5-part', utcOffset: 0 })
  } catch (error) {
    return {
      problem: error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error),
    }
  }
  return { pattern, isRepeating: isRepeating(fields) }
}

function isRepeating([minute = '', hour = '']: readonly string[]): boolean {
  return minute.startsWith('*') || hour.startsWith('*')
}

function readField(field: Field, word: string): string | CronProblem {
  const items: string[] = []
  for (const item of word.split(',')) {
    const read = readItem(field, item)
    if (typeof read !== 'string') return { problem: `its ${field.name} ${read.problem}` }
    items.push(read)
  }
  return items.join(',')
}

function readItem(field: Field, item: string): string | CronProblem {
  if (item === '') return { problem: 'is empty, or ends or begins with a comma' }
  if (field.further?.test(item)) return item.toUpperCase()
  const [range = '', step, ...rest] = item.split('/')
  if (rest.length > 0) return { problem: `has more than one step: '${shown(item)}'` }
  const span = field.to - field.from + (field.to === 7 ? 0 : 1)
  if (step !== undefined && (!/^\d{1,2}$/.test(step) || Number(step) < 1 || Number(step) > span)) {
    return { problem: `has a step of '${shown(step)}', which must be from 1 to ${span}` }
  }
  const every = step === undefined ? '' : `/${Number(step)}`
  if (range === '*' || range === '?') return `*${every}`
  const [first = '', last, ...more] = range.split('-')
  if (more.length > 0) return { problem: `is no range: '${shown(range)}'` }
  const from = numberOf(field, first)
  if (typeof from !== 'number') return from
  if (last === undefined && step === undefined) return String(from)
  // Days count from Sunday on, whichever of its numbers says it.
  if (last === undefined) return field.to === 7 ? `${from % 7}-6${every}` : `${from}-${field.to}${every}`
  const to = numberOf(field, last)
  if (typeof to !== 'number') return to
  if (from <= to) return `${from}-${to}${every}`
  return overTheEnd(field, { from, to, step: Number(step ?? 1) })
}

/** A range that goes on at the beginning: `22-6` of hours are 22, 23, 0 to 6. */
function overTheEnd(field: Field, { from, to, step }: { from: number; to: number; step: number }): string {
  const end = field.to === 7 ? 6 : field.to
  const size = end - field.from + 1
  const values: number[] = []
  for (let at = from; at <= to + size; at += step) values.push(at > end ? at - size : at)
  return [...new Set(values)].sort((a, b) => a - b).join(',')
}

function numberOf(field: Field, text: string): number | CronProblem {
  if (/^\d{1,2}$/.test(text)) {
    const value = Number(text)
    if (value >= field.from && value <= field.to) return value
    return { problem: `must be from ${field.from} to ${field.to}, not ${shown(text)}` }
  }
  const name = text.toLowerCase()
  // The whole name, too: `sunday`.
  const at = field.names.findIndex(
    (short) => name.startsWith(short) && (name.length === 3 || wholeNames(field).includes(name)),
  )
  if (at >= 0) return field.from + at
  const names = field.names.length === 0 ? '' : ` or a name such as ${field.names[1]?.toUpperCase()}`
  return { problem: `must be a number from ${field.from} to ${field.to}${names}, not '${shown(text)}'` }
}

function wholeNames({ names }: Field): readonly string[] {
  return names === MONTHS
    ? [
        'january',
        'february',
        'march',
        'april',
        'june',
        'july',
        'august',
        'september',
        'october',
        'november',
        'december',
      ]
    : ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']
}

function shown(text: string): string {
  return text.length > 20 ? `${text.slice(0, 20)}…` : text
}
