import type { Theme } from '../terminal/theme.ts'
import { paint, plainText, readLine, type Span } from './ansi.ts'
import { cutSpans, fitText, markSpans, spansWidth, textWidth, wrapSpans } from './cut.ts'
import type { Matcher } from './matcher.ts'
import type { Entry } from './ring.ts'

/** How times stand before lines. */
export const TIME_MODES = ['off', 'local', 'utc', 'relative'] as const
export type TimeMode = (typeof TIME_MODES)[number]

/** How a line becomes rows. */
export interface LineStyle {
  readonly theme: Theme
  readonly width: number
  /** `local` leaves the time out where the game has written one itself. */
  readonly time: TimeMode
  /** For relative times, milliseconds since the epoch. */
  readonly nowMs: number
  readonly wrap: boolean
  /** Columns scrolled to the right, when lines are not wrapped. */
  readonly shift: number
  readonly colour: boolean
  /** Whether levels and matches are coloured; off while lines come too fast to read. */
  readonly highlight: boolean
  readonly search: Matcher | undefined
  /** Whether the search stands on this line. */
  readonly current: boolean
  /** Puts the line in reverse, as when it is selected. */
  readonly selected: boolean
  /** The key that loads the lines of a gap, as it is typed now. */
  readonly loadKey: string
}

/** The rows of one line, painted, each at most `width` columns. */
export function lineRows(entry: Entry, style: LineStyle): string[] {
  const { theme } = style
  if (entry.kind === 'gap') return [styled(theme.warn, gapRow(`${entry.text}  [${style.loadKey}] load`, style.width))]
  const time = timeText(entry, style)
  const width = Math.max(1, style.width - time.length)
  const most = style.wrap ? Number.POSITIVE_INFINITY : style.shift + width + 64
  const spans = decorate(entry, style, most)
  const rows = style.wrap ? wrapSpans(spans, width) : [markedCut(spans, style, width)]
  const blank = ' '.repeat(time.length)
  const mark = style.selected ? theme.selected : ''
  return rows.map((row, index) => {
    const body = style.selected ? row.map((span) => ({ ...span, style: span.style + mark })) : row
    const shown = style.selected && body.length === 0 ? [{ style: mark, text: ' ' }] : body
    return styled(style.selected ? mark : theme.dim, index === 0 ? time : blank) + paint(shown)
  })
}

/** The part of a line that is in view, with a mark on each side on which there is more. */
function markedCut(spans: readonly Span[], style: LineStyle, width: number): Span[] {
  const before = style.shift > 0 && spans.length > 0
  const after = spansWidth(spans, style.shift + width + 1) > style.shift + width
  if (width < 3 || (!before && !after)) return cutSpans(spans, style.shift, width)
  const tone = style.theme.accent
  const room = width - (before ? 1 : 0) - (after ? 1 : 0)
  const middle = cutSpans(spans, style.shift + (before ? 1 : 0), room)
  const gap = Math.max(0, room - spansWidth(middle, room))
  return [
    ...(before ? [{ style: tone, text: '‹' }] : []),
    ...middle,
    // A wide character that did not fit leaves its column empty.
    ...(after && gap > 0 ? [{ style: '', text: ' '.repeat(gap) }] : []),
    ...(after ? [{ style: tone, text: '›' }] : []),
  ]
}

function decorate(entry: Entry, style: LineStyle, most: number): Span[] {
  const { theme } = style
  const read = readLine(entry.text, most)
  const lead = entry.kind === 'stdin' ? '» ' : entry.kind === 'system' ? '• ' : ''
  const tone = toneOf(entry, style)
  const plain = style.colour ? read : read.map(({ text }) => ({ style: '', text }))
  const coloured = plain.map((span) => (span.style === '' && tone !== '' ? { style: tone, text: span.text } : span))
  const marked =
    style.search === undefined || !style.highlight
      ? coloured
      : markSpans(coloured, style.search.ranges(plainText(entry.text)), style.current ? theme.current : theme.match)
  return lead === '' ? marked : [{ style: tone, text: lead }, ...marked]
}

function toneOf(entry: Entry, style: LineStyle): string {
  const { theme } = style
  if (entry.kind === 'stdin') return theme.typed
  if (entry.kind === 'system') return theme.dim
  if (!style.highlight) return ''
  if (entry.level === 'error') return theme.bad
  if (entry.level === 'warn') return theme.warn
  return entry.level === 'debug' ? theme.dim : ''
}

/** One stretch of text in a style of ours. */
function styled(style: string, text: string): string {
  return text === '' || style === '' ? text : paint([{ style, text }])
}

/** A row of its own for missing lines, with a rule on both sides. */
function gapRow(text: string, width: number): string {
  const label = ` ${fitText(text, Math.max(1, width - 8))} `
  const left = Math.max(0, Math.floor((width - textWidth(label)) / 2))
  return `${'─'.repeat(left)}${label}${'─'.repeat(Math.max(0, width - left - textWidth(label)))}`
}

/** `[12:34:56`, `12:34:56`, `2026-01-31 12:34:56` and their like at the beginning of a line. */
const OWN_TIME = /^[[(]?(?:\d{2,4}[-./]\d\d[-./]\d{2,4}[T ,]{1,2})?\d{1,2}:\d\d:\d\d/

function timeText(entry: Entry, style: LineStyle): string {
  if (style.time === 'off') return ''
  const { ms } = entry
  if (style.time === 'relative') return `${age(style.nowMs - ms).padStart(7)} `
  const date = new Date(ms)
  if (style.time === 'utc') return `${date.toISOString().slice(11, 23)}Z `
  if (OWN_TIME.test(plainText(entry.text.slice(0, OWN_TIME_WITHIN)))) return ''
  const two = (n: number): string => String(n).padStart(2, '0')
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  return `${clock}.${String(date.getMilliseconds()).padStart(3, '0')} `
}

/** Colours may stand before the time. */
const OWN_TIME_WITHIN = 80

/** How long ago, in at most seven characters. */
function age(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 100) return `-${seconds.toFixed(1)}s`
  if (seconds < 6000) return `-${Math.floor(seconds / 60)}m${String(Math.floor(seconds % 60)).padStart(2, '0')}`
  return `-${Math.floor(seconds / 3600)}h${String(Math.floor((seconds % 3600) / 60)).padStart(2, '0')}`
}
