import type { LevelRule, LineLevel } from '../../../shared/api/template-fields.ts'
import { compileBounded, PatternBudget, PatternProblem } from '../../../shared/templates/bounded-pattern.ts'
import { plainText } from './ansi.ts'

/** How grave a line is. */
export type Level = LineLevel

/** What the level filter lets through. */
export const LEVEL_FILTERS = ['all', 'info', 'warn', 'error'] as const
export type LevelFilter = (typeof LEVEL_FILTERS)[number]

const RANK: Readonly<Record<Level, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

const WORD = /\b(?:(ERROR|SEVERE|FATAL|CRITICAL)|(WARN(?:ING)?)|(INFO|NOTICE)|(DEBUG|TRACE|FINE(?:ST|R)?))\b/i
const CONTINUED = /^(?:\s|Caused by:|Suppressed:|\.\.\. \d)/
/** How an exception begins that no logger has put a level in front of: of Java, of .NET and of Python. */
const EXCEPTION =
  /^(?:Exception in thread "|Unhandled exception|Traceback \(most recent call last\)|(?:[\w$]+\.)*[A-Z][\w$]*(?:Exception|Error)(?::|$))/
const READ = 200

/** How a line gets its level: see {@link readLevel}. */
export type LevelReading = typeof readLevel

/**
 * Reads levels by the rules of a template: the first that fits counts, for lines that none fits it is as without. Rules that cannot
 * be used, or would take too long together, are left out.
 */
export function levelsBy(rules: readonly LevelRule[]): LevelReading {
  const budget = new PatternBudget()
  const usable = rules.flatMap((rule) => {
    const fits = fitting(rule, budget)
    return fits === undefined ? [] : [{ level: rule.level, fits }]
  })
  if (usable.length === 0) return readLevel
  return (text, kind, before) => {
    if (kind !== 'stdout' && kind !== 'stderr') return readLevel(text, kind, before)
    const start = plainText(text.length > READ_RAW ? text.slice(0, READ_RAW) : text).slice(0, READ)
    return usable.find(({ fits }) => fits(start))?.level ?? readLevel(text, kind, before)
  }
}

/** Colours that stand before the words of a line take room of their own. */
const READ_RAW = 2 * READ

function fitting({ kind, value }: LevelRule, budget: PatternBudget): ((text: string) => boolean) | undefined {
  if (kind === 'prefix') return (text) => text.startsWith(value)
  if (kind === 'contains') return (text) => text.includes(value)
  try {
    const pattern = compileBounded(value)
    return budget.take(pattern.steps, READ) ? (text) => pattern.find(text) : undefined
  } catch (error) {
    // A daemon of another version may let pass what this one does not.
    if (error instanceof PatternProblem) return undefined
    throw error
  }
}

/**
 * Reads the level from the first words of a line, as loggers write them; where a line came from says nothing, for many games
 * write everything to stderr. `before` is the level of the line before it from the same stream: the lines of a stack trace
 * have that of their exception, and an exception that a logger printed has that of the message.
 */
export function readLevel(text: string, kind: string, before: Level): Level {
  if (kind === 'gap' || kind === 'system') return 'warn'
  if (kind === 'stdin') return 'info'
  if (CONTINUED.test(text)) return before
  const start = text.length > READ ? text.slice(0, READ) : text
  if (EXCEPTION.test(start)) return RANK[before] >= RANK.warn ? before : 'error'
  const found = WORD.exec(start)
  if (found === null) return 'info'
  if (found[1] !== undefined) return 'error'
  if (found[2] !== undefined) return 'warn'
  return found[3] !== undefined ? 'info' : 'debug'
}

/** Whether a filter lets a level through. */
export function passesLevel(level: Level, filter: LevelFilter): boolean {
  return filter === 'all' || RANK[level] >= RANK[filter]
}
