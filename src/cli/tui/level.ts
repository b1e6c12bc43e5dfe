/** How grave a line is. */
export type Level = 'debug' | 'info' | 'warn' | 'error'

/** What the level filter lets through. */
export const LEVEL_FILTERS = ['all', 'info', 'warn', 'error'] as const
export type LevelFilter = (typeof LEVEL_FILTERS)[number]

const RANK: Readonly<Record<Level, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

const WORD = /\b(?:(ERROR|SEVERE|FATAL|CRITICAL)|(WARN(?:ING)?)|(INFO|NOTICE)|(DEBUG|TRACE|FINE(?:ST|R)?))\b/i
const CONTINUED = /^(?:\s|Caused by:|\.\.\. \d)/

/**
 * Reads the level from the first words of a line, as loggers write them. A continued line, as in a stack trace, has the
 * level of the one before; a line of stderr without a word is a warning.
 */
export function readLevel(text: string, kind: string, before: Level): Level {
  if (kind === 'gap' || kind === 'system') return 'warn'
  if (kind === 'stdin') return 'info'
  if (CONTINUED.test(text)) return before
  const found = WORD.exec(text.length > 100 ? text.slice(0, 100) : text)
  if (found === null) return kind === 'stderr' ? 'warn' : 'info'
  if (found[1] !== undefined) return 'error'
  if (found[2] !== undefined) return 'warn'
  return found[3] !== undefined ? 'info' : 'debug'
}

/** Whether a filter lets a level through. */
export function passesLevel(level: Level, filter: LevelFilter): boolean {
  return filter === 'all' || RANK[level] >= RANK[filter]
}
