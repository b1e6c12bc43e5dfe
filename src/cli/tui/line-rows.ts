import { paint, plainText, readLine, type Span } from './ansi.ts'
import { cutSpans, fitText, markSpans, textWidth, wrapSpans } from './cells.ts'
import type { Matcher } from './matcher.ts'
import type { Entry } from './ring.ts'

/** How times stand before lines. */
export const TIME_MODES = ['off', 'local', 'utc', 'relative'] as const
export type TimeMode = (typeof TIME_MODES)[number]

/** How a line becomes rows. */
export interface LineStyle {
  readonly width: number
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
  /** Puts the line in reverse, as when it is selected. */
  readonly selected: boolean
}

/** Styles of our own; the game's own SGR sequences come through `readLine`. */
export const INK = {
  dim: '\u001B[2m',
  bold: '\u001B[1m',
  reverse: '\u001B[7m',
  red: '\u001B[31m',
  green: '\u001B[32m',
  yellow: '\u001B[33m',
  cyan: '\u001B[36m',
} as const

/** One stretch of text in a style of ours. */
export function styled(style: string, text: string): string {
  return text === '' || style === '' ? text : paint([{ style, text }])
}

/** The rows of one line, painted, each at most `width` columns. */
export function lineRows(entry: Entry, style: LineStyle): string[] {
  if (entry.kind === 'gap') return [styled(INK.yellow, gapRow(entry.text, style.width))]
  const time = timeText(entry.ms, style)
  const width = Math.max(1, style.width - time.length)
  const most = style.wrap ? Number.POSITIVE_INFINITY : style.shift + width + 64
  const spans = decorate(entry, style, most)
  const rows = style.wrap ? wrapSpans(spans, width) : [cutSpans(spans, style.shift, width)]
  const blank = ' '.repeat(time.length)
  const mark = style.selected ? INK.reverse : ''
  return rows.map((row, index) => {
    const body = style.selected ? row.map((span) => ({ ...span, style: span.style + mark })) : row
    const shown = style.selected && body.length === 0 ? [{ style: mark, text: ' ' }] : body
    return styled(style.selected ? mark : INK.dim, index === 0 ? time : blank) + paint(shown)
  })
}

function decorate(entry: Entry, style: LineStyle, most: number): Span[] {
  const read = readLine(entry.text, most)
  const lead = entry.kind === 'stdin' ? '» ' : entry.kind === 'system' ? '• ' : ''
  const tone = toneOf(entry, style)
  const plain = style.colour ? read : read.map(({ text }) => ({ style: '', text }))
  const coloured = plain.map((span) => (span.style === '' && tone !== '' ? { style: tone, text: span.text } : span))
  const marked =
    style.search === undefined || !style.highlight
      ? coloured
      : markSpans(coloured, style.search.ranges(plainText(entry.text)), INK.reverse)
  return lead === '' ? marked : [{ style: tone, text: lead }, ...marked]
}

function toneOf(entry: Entry, style: LineStyle): string {
  if (entry.kind === 'stdin') return INK.cyan
  if (entry.kind === 'system') return INK.dim
  if (!style.highlight) return ''
  if (entry.level === 'error') return INK.red
  if (entry.level === 'warn') return INK.yellow
  return entry.level === 'debug' ? INK.dim : ''
}

/** A row of its own for missing lines, with a rule on both sides. */
function gapRow(text: string, width: number): string {
  const label = ` ${fitText(text, Math.max(1, width - 8))} `
  const left = Math.max(0, Math.floor((width - textWidth(label)) / 2))
  return `${'─'.repeat(left)}${label}${'─'.repeat(Math.max(0, width - left - textWidth(label)))}`
}

function timeText(ms: number, style: LineStyle): string {
  if (style.time === 'off') return ''
  if (style.time === 'relative') return `${age(style.nowMs - ms).padStart(7)} `
  const date = new Date(ms)
  if (style.time === 'utc') return `${date.toISOString().slice(11, 23)}Z `
  const two = (n: number): string => String(n).padStart(2, '0')
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`
  return `${clock}.${String(date.getMilliseconds()).padStart(3, '0')} `
}

/** How long ago, in at most seven characters. */
function age(ms: number): string {
  const seconds = Math.max(0, ms) / 1000
  if (seconds < 100) return `-${seconds.toFixed(1)}s`
  if (seconds < 6000) return `-${Math.floor(seconds / 60)}m${String(Math.floor(seconds % 60)).padStart(2, '0')}`
  return `-${Math.floor(seconds / 3600)}h${String(Math.floor((seconds % 3600) / 60)).padStart(2, '0')}`
}
