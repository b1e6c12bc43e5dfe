import { fitText, textWidth } from './cells.ts'
import { INK, styled } from './line-rows.ts'

/** A word of a bar in a style. */
export interface Piece {
  readonly text: string
  readonly style?: string
}

/** The fields of one row between two corners, joined by a rule; fields that find no room are left out from the end. */
export interface Rule {
  readonly start: string
  readonly left: readonly Piece[]
  readonly right: readonly Piece[]
  readonly end: string
  readonly width: number
  /** What fills the row and stands between fields. */
  readonly fill: '─' | ' '
}

/** One row of exactly `width` columns. */
export function ruleRow(rule: Rule): string {
  const { start, end, width, fill } = rule
  const gap = fill === '─' ? ' ─ ' : '  '
  const room = width - textWidth(start) - textWidth(end) - 2
  const right = keepFitting(rule.right, gap, Math.floor(room * 0.7))
  const rightWidth = widthOf(right, gap)
  const left = keepFitting(rule.left, gap, room - (rightWidth === 0 ? 0 : rightWidth + 2))
  const middle = room - widthOf(left, gap) - rightWidth
  const between =
    fill === '─' && middle >= 3
      ? ` ${'─'.repeat(right.length === 0 ? middle - 1 : middle - 2)}${right.length === 0 ? '' : ' '}`
      : ' '.repeat(Math.max(0, middle))
  return `${styled(INK.dim, start)} ${join(left, gap)}${styled(INK.dim, between)}${join(right, gap)} ${styled(INK.dim, end)}`
}

function widthOf(pieces: readonly Piece[], gap: string): number {
  return pieces.reduce((sum, piece, index) => sum + textWidth(piece.text) + (index === 0 ? 0 : gap.length), 0)
}

/** As many fields as fit; the first is cut rather than lost. */
function keepFitting(pieces: readonly Piece[], gap: string, room: number): Piece[] {
  const kept: Piece[] = []
  for (const piece of pieces) {
    if (widthOf([...kept, piece], gap) > room) {
      if (kept.length > 0 || room < 2) return kept
      return [{ ...piece, text: fitText(piece.text, room) }]
    }
    kept.push(piece)
  }
  return kept
}

function join(pieces: readonly Piece[], gap: string): string {
  return pieces.map((piece) => styled(piece.style ?? '', piece.text)).join(styled(INK.dim, gap))
}
