import { fitText, pad, textWidth } from './cells.ts'
import type { Editor } from './editor.ts'
import { INK, styled } from './line-rows.ts'
import type { ConsoleState } from './model.ts'
import { recalledCommand } from './press-mode.ts'

/** The prompt row and where the terminal's cursor stands in it, if anywhere. */
export interface PromptRow {
  readonly text: string
  readonly cursor: number | undefined
}

/** The row in which one types, answers or chooses; exactly `width` columns. */
export function promptRow(state: ConsoleState, width: number): PromptRow {
  const { mode } = state
  switch (mode.kind) {
    case 'ask':
      return typing(mode.what === 'search' ? '/' : '&', mode.editor, width, true)
    case 'kill':
      return typing(`type ${state.serverName} to kill it: `, mode.editor, width, true)
    case 'recall': {
      const found = recalledCommand(state.history, mode.query, mode.skip) ?? ''
      return fixed(`(reverse-i-search) '${mode.query}': ${found}`, width)
    }
    case 'power':
      return fixed('power: s start · t stop · r restart · k kill · Esc cancel', width)
    case 'paste':
      return fixed(`send ${mode.lines.length} lines? y/N`, width)
    case 'select':
      return fixed('select: ↑ ↓ lines · y copy · Esc cancel', width)
    case 'help':
      return fixed('any key closes', width)
    case 'none':
      break
  }
  if (state.readOnly) return { text: pad('(read-only)', width), cursor: undefined }
  return typing('> ', state.editor, width, state.focus === 'input')
}

function fixed(text: string, width: number): PromptRow {
  return { text: styled(INK.bold, pad(text, width)), cursor: undefined }
}

/** A line being typed; when it is too long, the part around the cursor. */
function typing(label: string, editor: Editor, width: number, focused: boolean): PromptRow {
  const shownLabel = fitText(label, Math.max(1, width - 10))
  const room = Math.max(1, width - textWidth(shownLabel) - 1)
  let start = 0
  while (textWidth(editor.text.slice(start, editor.cursor)) > room) start += codeLength(editor.text, start)
  const before = textWidth(editor.text.slice(start, editor.cursor))
  const text = pad(shownLabel + clip(editor.text.slice(start), room), width)
  return { text: focused ? text : styled(INK.dim, text), cursor: focused ? textWidth(shownLabel) + before : undefined }
}

function codeLength(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1
}

function clip(text: string, room: number): string {
  let kept = ''
  for (const character of text) {
    if (textWidth(kept + character) > room) break
    kept += character
  }
  return kept
}
