import { Box } from 'ink'
import type { ReactElement } from 'react'
import { recalledCommand } from '../keys/press-mode.ts'
import { fitEnd, fitText, PER_COLUMN, textWidth } from '../log/cut.ts'
import type { Editor } from '../model/editor.ts'
import { eulaRefusal } from '../model/eula.ts'
import { type ConsoleState, NO_INPUT } from '../model/model.ts'
import type { Tone } from '../terminal/theme.ts'
import { Label } from './label.tsx'

/** What the prompt row shows, and where the terminal's cursor stands in it, if anywhere. */
export interface PromptText {
  readonly label: string
  readonly text: string
  readonly tone: Tone
  readonly cursor: number | undefined
}

/** Columns before and behind the prompt. */
const PADDING = 1

/** The row in which one types, answers or chooses. */
export function Prompt({ label, text, tone }: PromptText): ReactElement {
  return (
    <Box height={1} paddingX={PADDING}>
      {label !== '' && <Label text={label} tone={tone === 'dim' ? 'dim' : 'accent'} />}
      {text !== '' && <Label text={text} tone={tone} />}
    </Box>
  )
}

/** The columns that a prompt takes: the fewer, the less a typed key costs. */
export function promptWidth({ label, text }: PromptText): number {
  return 2 * PADDING + textWidth(label) + textWidth(text)
}

/** The prompt of a state; `cursor` counts from the first column of the row. */
export function promptText(state: ConsoleState, width: number): PromptText {
  const { mode } = state
  const room = width - 2 * PADDING
  switch (mode.kind) {
    case 'ask':
      return typing(mode.what === 'search' ? '/' : '&', mode.editor, room, true)
    case 'kill':
      return typing(`type ${state.serverName} to kill it: `, mode.editor, room, true)
    case 'export':
      return typing('write the lines to: ', mode.editor, room, true)
    case 'eula': {
      const refusal = eulaRefusal(state)
      if (refusal !== undefined) return fixed(`${refusal} · Esc closes`, room)
      return typing('type accept or decline (Esc: later): ', mode.editor, room, true)
    }
    case 'recall': {
      const found = recalledCommand(state.history, mode.query, mode.skip) ?? ''
      return fixed(`(reverse-i-search) '${mode.query}': ${found}`, room)
    }
    case 'power':
      return fixed('press a key of the menu', room)
    case 'paste':
      return fixed(`send ${mode.lines.length} lines? y/N`, room)
    case 'select':
      return fixed('select: ↑ ↓ lines · y copy · Esc cancel', room)
    case 'help':
      return fixed('any key closes', room)
    case 'none':
      break
  }
  if (state.takesNoInput) return { label: '', text: fitText(`(${NO_INPUT})`, room), tone: 'dim', cursor: undefined }
  if (state.readOnly) return { label: '', text: fitText('(read-only)', room), tone: 'dim', cursor: undefined }
  return typing('> ', state.editor, room, state.focus === 'input')
}

function fixed(text: string, room: number): PromptText {
  return { label: '', text: fitText(text, room), tone: 'title', cursor: undefined }
}

/** A line being typed; when it is too long, the part around the cursor. */
function typing(label: string, editor: Editor, width: number, focused: boolean): PromptText {
  const shownLabel = fitText(label, Math.max(1, width - 10))
  const room = Math.max(1, width - textWidth(shownLabel) - 1)
  const before = fitEnd(editor.text.slice(0, editor.cursor), room)
  const start = editor.cursor - before.length
  const near = editor.text.slice(start, start + room * PER_COLUMN)
  const cursor = focused ? PADDING + textWidth(shownLabel) + textWidth(before) : undefined
  return { label: shownLabel, text: clip(near, room), tone: focused ? 'plain' : 'dim', cursor }
}

function clip(text: string, room: number): string {
  let kept = ''
  let used = 0
  for (const character of text) {
    used += textWidth(character)
    if (used > room) break
    kept += character
  }
  return kept
}
