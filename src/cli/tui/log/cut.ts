import { eastAsianWidth } from 'get-east-asian-width'
import stringWidth from 'string-width'
import type { Span } from './ansi.ts'

const TAB = 8

/** How many columns a text takes. A tab counts as one; rows expand tabs first. */
export function textWidth(text: string): number {
  if (isAscii(text)) return text.length
  let width = 0
  for (const { segment } of graphemes(text)) width += graphemeWidth(segment)
  return width
}

/** The part of a text that fits into `width` columns, with `…` in place of what was cut. */
export function fitText(text: string, width: number): string {
  if (width <= 0) return ''
  if (isPlain(text)) return text.length <= width ? text : `${text.slice(0, width - 1)}…`
  let used = 0
  let at = 0
  let cut = 0
  for (const { segment } of graphemes(text)) {
    used += graphemeWidth(segment)
    if (used > width) return `${text.slice(0, cut)}…`
    at += segment.length
    if (used <= width - 1) cut = at
  }
  return text
}

/** The end of a text that fits into `width` columns. Of a text that is far too long only the end is looked at. */
export function fitEnd(text: string, width: number): string {
  const near = text.slice(-PER_COLUMN * width)
  const cells = Array.from(graphemes(near), ({ segment }) => segment)
  let from = cells.length
  for (let left = width; from > 0; from -= 1) {
    left -= graphemeWidth(cells[from - 1] ?? '')
    if (left < 0) break
  }
  return cells.slice(from).join('')
}

/** The most characters that are drawn into one column. */
export const PER_COLUMN = 16

/** How many columns spans take, tabs included; the counting ends when it has come to `most`. */
export function spansWidth(spans: readonly Span[], most: number): number {
  let column = 0
  for (const { text } of spans) {
    if (isPlain(text)) {
      column += text.length
    } else {
      eachCell(text, column, (_, at, width) => {
        column = at + width
        return column < most
      })
    }
    if (column >= most) break
  }
  return column
}

/** The columns `from` to `from + width` of a line; a wide character that stands on an edge gives way to a space. */
export function cutSpans(spans: readonly Span[], from: number, width: number): Span[] {
  const cut: Span[] = []
  let column = 0
  for (const span of spans) {
    let text = ''
    if (isPlain(span.text)) {
      text = span.text.slice(Math.max(0, from - column), Math.max(0, from + width - column))
      column += span.text.length
    } else {
      eachCell(span.text, column, (cell, at, cellWidth) => {
        column = at + cellWidth
        if (at >= from && column <= from + width) text += cell
        else if (at < from && column > from) text += ' '.repeat(Math.min(column, from + width) - from)
        return column < from + width
      })
    }
    if (text !== '') cut.push({ style: span.style, text })
    if (column >= from + width) break
  }
  return cut
}

/** A line broken into rows of at most `width` columns; always at least one row, at most `most`. */
export function wrapSpans(spans: readonly Span[], width: number, most = 1000): Span[][] {
  const rows: Span[][] = []
  let row: Span[] = []
  let used = 0
  for (const span of spans) {
    let text = ''
    eachCell(span.text, used, (cell, _, cellWidth) => {
      if (used + cellWidth > width && used > 0) {
        if (text !== '') row.push({ style: span.style, text })
        rows.push(row)
        row = []
        text = ''
        used = 0
      }
      // A tab that is wider than the whole row fills it and no more.
      const isBlank = cell === ' '.repeat(cell.length)
      const shown = isBlank ? cell.slice(0, width - used) : cell
      text += shown
      used += isBlank ? shown.length : cellWidth
      return rows.length < most
    })
    if (text !== '') row.push({ style: span.style, text })
    if (rows.length >= most) return rows
  }
  rows.push(row)
  return rows
}

/** A text broken at blanks into rows of at most `width` columns; a word that is longer is broken where it must be. */
export function wrapWords(text: string, width: number): string[] {
  const rows: string[] = []
  let row = ''
  for (const word of text.split(' ')) {
    const joined = row === '' ? word : `${row} ${word}`
    if (textWidth(joined) <= width) {
      row = joined
      continue
    }
    if (row !== '') rows.push(row)
    const pieces = wrapSpans([{ style: '', text: word }], width).map((spans) => spans.map((span) => span.text).join(''))
    rows.push(...pieces.slice(0, -1))
    row = pieces.at(-1) ?? ''
  }
  return [...rows, row]
}

/**
 * Which stretches of a line, given as character offsets of its plain text, are shown in `style` alone: on top of a style of
 * the game, such as reversed text, it could vanish.
 */
export function markSpans(
  spans: readonly Span[],
  ranges: readonly (readonly [number, number])[],
  style: string,
): Span[] {
  const marked: Span[] = []
  let offset = 0
  for (const span of spans) {
    const end = offset + span.text.length
    let at = offset
    for (const [from, to] of ranges) {
      const start = Math.max(from, at)
      const stop = Math.min(to, end)
      if (start >= stop) continue
      if (start > at) marked.push({ style: span.style, text: span.text.slice(at - offset, start - offset) })
      marked.push({ style, text: span.text.slice(start - offset, stop - offset) })
      at = stop
    }
    if (at < end) marked.push({ style: span.style, text: span.text.slice(at - offset) })
    offset = end
  }
  return marked
}

/** Calls `visit` for each character as a reader sees it, with its column and width, until it answers false. */
function eachCell(text: string, column: number, visit: (cell: string, at: number, width: number) => boolean): void {
  let at = column
  const step = (cell: string): boolean => {
    const width = cell === '\t' ? TAB - (at % TAB) : graphemeWidth(cell)
    const goOn = visit(cell === '\t' ? ' '.repeat(width) : cell, at, width)
    at += width
    return goOn
  }
  if (isAscii(text)) {
    for (const cell of text) if (!step(cell)) return
    return
  }
  for (const { segment } of graphemes(text)) {
    const cells = graphemeWidth(segment) > WIDEST ? segment : [segment]
    for (const cell of cells) if (!step(cell)) return
  }
}

function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text)
}

const NOT_ASCII = /[^\t\u0020-\u007E]/

/** Whether each character takes one column, as of nearly all that games write: nothing needs to be taken apart. */
function isPlain(text: string): boolean {
  return !NOT_PLAIN.test(text)
}

const NOT_PLAIN = /[^\u0020-\u007E]/

const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' })

/** The time of a segmenter grows with the square of the text, so it gets short pieces; the last part of each may go on. */
const PIECE = 256

function* graphemes(text: string): Generator<{ segment: string }> {
  for (let from = 0; from < text.length; ) {
    const piece = text.slice(from, from + PIECE)
    const isLast = from + piece.length >= text.length
    let held: string | undefined
    for (const { segment } of segmenter.segment(piece)) {
      if (held !== undefined) {
        yield { segment: held }
        from += held.length
      }
      held = segment
    }
    if (held !== undefined && (isLast || held.length === piece.length)) {
      yield { segment: held }
      from += held.length
    }
  }
}

// Most of a log is letters, and a hostile one may be anything: for these alone string-width takes eight times as long.
const LETTER = /^(?!\p{Default_Ignorable_Code_Point})[\p{L}\p{N}]$/u
const PICTURE = /^(?!\p{Regional_Indicator})\p{Emoji_Presentation}$/u
const UNSEEN = /^[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Mark}]+$/u

function graphemeWidth(segment: string): number {
  const code = segment.codePointAt(0) ?? 0
  if (code >= 0x20 && code < 0x7f && segment.length === 1) return 1
  if (UNSEEN.test(segment)) return 0
  if (PICTURE.test(segment)) return 2
  if (LETTER.test(segment)) return eastAsianWidth(code)
  const width = stringWidth(segment.replace(SIGNS, ''))
  if (width <= WIDEST) return width
  return [...segment].reduce((sum, character) => sum + characterWidth(character), 0)
}

/** Signs on a letter take no column, whatever stands before them; the selector that makes a picture of one does. */
const SIGNS = /(?!\uFE0F)\p{Mark}/gu
/** What takes more columns is several characters to a terminal. */
const WIDEST = 2

function characterWidth(character: string): number {
  return UNSEEN.test(character) ? 0 : Math.min(WIDEST, stringWidth(character))
}
