import { fitText, pad } from './cells.ts'
import { helpRows } from './help-rows.ts'
import type { Layout, Size } from './layout.ts'
import { INK, styled } from './line-rows.ts'
import type { ConsoleState } from './model.ts'
import { promptRow } from './prompt-row.ts'
import { type BarFacts, headerRow, hintRow, settingsRow, statsRow } from './status-bars.ts'
import type { PaneRow } from './viewport.ts'

/** One picture: painted rows from the top, and where the cursor stands. */
export interface Frame {
  readonly header: readonly string[]
  readonly log: readonly string[]
  readonly footer: readonly string[]
  readonly cursor: { readonly x: number; readonly y: number } | undefined
}

export interface FrameInput {
  readonly state: ConsoleState
  readonly size: Size
  readonly layout: Layout
  readonly rows: readonly PaneRow[]
  readonly bar: BarFacts
}

/** Puts header, log and footer together; never more rows than the layout has. */
export function buildFrame(input: FrameInput): Frame {
  const { state, layout, bar } = input
  if (layout.kind === 'notice') {
    const { columns, rows } = input.size
    const text = fitText(`panel: ${columns}x${rows} is too small, 40x8 needed; ^] detaches`, layout.columns)
    return { header: [text], log: [], footer: [], cursor: undefined }
  }
  const boxed = layout.kind !== 'narrow'
  const log = logRows(input)
  const prompt = promptRow(state, boxed ? layout.columns - 4 : layout.columns)
  const x = prompt.cursor === undefined ? undefined : prompt.cursor + (boxed ? 2 : 0)
  const bare: Frame = { header: [headerRow(state, layout, bar)], log, footer: [prompt.text], cursor: undefined }
  const y = 1 + log.length + (boxed ? 2 : 0)
  const cursor = x === undefined ? undefined : { x, y }
  if (!boxed) return { ...bare, cursor }
  const side = styled(INK.dim, '│')
  const footer = [
    statsRow(state, layout, bar),
    settingsRow(state, layout, bar),
    `${side} ${prompt.text} ${side}`,
    hintRow(state, layout),
  ]
  return { ...bare, footer, cursor }
}

/** The rows of the log, at the bottom of their space while there are few; in the box with its sides. */
function logRows(input: FrameInput): string[] {
  const { state, layout } = input
  const help = state.mode.kind === 'help'
  const shown = help ? helpRows(layout.logWidth, layout.logHeight) : input.rows.map((row) => row.text)
  const blank = Array.from({ length: Math.max(0, layout.logHeight - shown.length) }, () => '')
  const rows = state.follow && !help ? [...blank, ...shown] : [...shown, ...blank]
  if (layout.kind === 'narrow') return rows.slice(0, layout.logHeight)
  const side = styled(INK.dim, '│')
  return rows.slice(0, layout.logHeight).map((row) => `${side} ${fill(row, layout.logWidth)} ${side}`)
}

function fill(painted: string, width: number): string {
  // Painted rows are at most `width` columns wide; only their visible text counts for the rest.
  const visible = painted.replace(SGR, '')
  return painted + pad(visible, width).slice(visible.length)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: styles take no columns
const SGR = /\u001B\[[\d;]*m/g
