import type { PowerAction } from '../../../shared/kernel/server-life.ts'
import { readPattern } from '../log/matcher.ts'
import { centred, rowsFrom } from '../log/viewport.ts'
import { type Editor, EMPTY_EDITOR, edit, editorWith, insert } from '../model/editor.ts'
import { eulaRefusal, eulaRows } from '../model/eula.ts'
import {
  type ConsoleState,
  followTail,
  type Mode,
  notify,
  pauseAt,
  type Step,
  type Surroundings,
  still,
} from '../model/model.ts'
import { seekMatch } from '../model/seek.ts'
import { editKey } from './edit-keys.ts'
import { type Key, keyName } from './keys.ts'

type ModeOf<K extends Mode['kind']> = Extract<Mode, { kind: K }>

/** A key while a question, a menu or a selection is open. */
export function pressMode(state: ConsoleState, input: Key, around: Surroundings): Step {
  const { mode } = state
  const key = keyName(input)
  switch (mode.kind) {
    case 'none':
      return still(state)
    case 'help':
      return still(close(state))
    case 'ask':
      return pressAsk(state, mode, input, around)
    case 'recall':
      return pressRecall(state, mode, input)
    case 'power':
      return pressPower(state, key)
    case 'kill':
      return pressKill(state, mode, input, around)
    case 'paste':
      return pressConfirmPaste(state, mode, key, around)
    case 'export':
      return pressExport(state, mode, input)
    case 'select':
      return pressSelect(state, mode, key, around)
    case 'eula':
      return pressEula(state, mode, input, around)
  }
}

function close(state: ConsoleState): ConsoleState {
  return { ...state, mode: { kind: 'none' } }
}

/** Typing in a one-line question. */
function typed(editor: Editor, input: Key): Editor {
  const motion = editKey(keyName(input))
  if (motion !== undefined) return edit(editor, motion)
  return input.ctrl || input.alt || [...input.name].length !== 1 ? editor : insert(editor, input.name)
}

function pressAsk(state: ConsoleState, mode: ModeOf<'ask'>, input: Key, around: Surroundings): Step {
  if (input.name === 'esc') return still(mode.what === 'filter' ? { ...close(state), filter: undefined } : close(state))
  if (input.name !== 'enter') return still({ ...state, mode: { ...mode, editor: typed(mode.editor, input) } })
  const { text } = mode.editor
  if (text === '') {
    const without =
      mode.what === 'filter' ? { filter: undefined } : { search: undefined, seek: undefined, matchAt: undefined }
    return still({ ...close(state), ...without })
  }
  try {
    // `!` turns only filters round; a search looks for it.
    const pattern = readPattern(mode.what === 'search' && text.startsWith('!') ? `\\${text}` : text)
    if (mode.what === 'filter') return still({ ...followIf(close(state), state.follow), filter: pattern })
    const searching = { ...close(state), search: pattern, matchAt: undefined }
    return still(seekMatch(searching, -1, { ...around, matches: undefined }))
  } catch (error) {
    return still(notify(state, error instanceof Error ? error.message : String(error), around.nowMs))
  }
}

function followIf(state: ConsoleState, follow: boolean): ConsoleState {
  return follow ? followTail(state) : state
}

/** The command that a reverse search stands on: the newest but `skip` that contains the query. */
export function recalledCommand(history: readonly string[], query: string, skip: number): string | undefined {
  const found = [...new Set([...history].reverse())].filter((command) => query !== '' && command.includes(query))
  return found[Math.min(skip, found.length - 1)]
}

function pressRecall(state: ConsoleState, mode: ModeOf<'recall'>, input: Key): Step {
  const key = keyName(input)
  const found = recalledCommand(state.history, mode.query, mode.skip)
  if (key === 'esc' || key === 'ctrl-g') return still(close(state))
  if (key === 'ctrl-r') return still({ ...state, mode: { ...mode, skip: mode.skip + 1 } })
  if (key === 'backspace') return still({ ...state, mode: { ...mode, query: mode.query.slice(0, -1), skip: 0 } })
  if (!input.ctrl && !input.alt && [...input.name].length === 1) {
    return still({ ...state, mode: { ...mode, query: mode.query + input.name, skip: 0 } })
  }
  return still(found === undefined ? close(state) : { ...close(state), editor: editorWith(found, state.editor) })
}

const POWER_KEYS: Readonly<Record<string, PowerAction>> = { s: 'start', t: 'stop', r: 'restart' }

function pressPower(state: ConsoleState, key: string): Step {
  if (key === 'k') return still({ ...state, mode: { kind: 'kill', editor: editorWith('') } })
  const action = POWER_KEYS[key]
  if (action === undefined) return still(key === 'esc' || key === 'q' ? close(state) : state)
  return { state: close(state), effects: [{ do: 'power', action }] }
}

/** Killing loses what the game has not saved: the name must be typed. */
function pressKill(state: ConsoleState, mode: ModeOf<'kill'>, input: Key, around: Surroundings): Step {
  if (input.name === 'esc') return still(close(state))
  if (input.name !== 'enter') return still({ ...state, mode: { ...mode, editor: typed(mode.editor, input) } })
  if (mode.editor.text.trim() !== state.serverName) {
    return still(notify(close(state), 'not killed: the name is another', around.nowMs))
  }
  return { state: close(state), effects: [{ do: 'power', action: 'kill' }] }
}

const SCROLL_KEYS: Readonly<Record<string, number>> = { up: -1, down: 1, pageup: -10, pagedown: 10 }

/** What is agreed to by one key could be agreed to by mistake: the word must be typed. */
function pressEula(state: ConsoleState, mode: ModeOf<'eula'>, input: Key, around: Surroundings): Step {
  const rows = SCROLL_KEYS[keyName(input)]
  if (rows !== undefined) return still(scrollEula(state, mode, rows, around))
  if (input.name === 'esc') return still(close(state))
  const refusal = eulaRefusal(state)
  if (refusal !== undefined) return still(notify(state, refusal, around.nowMs))
  if (input.name !== 'enter') return still({ ...state, mode: { ...mode, editor: typed(mode.editor, input) } })
  const word = mode.editor.text.trim().toLowerCase()
  if (word !== 'accept' && word !== 'decline') {
    const again = { ...state, mode: { ...mode, editor: EMPTY_EDITOR } }
    return still(notify(again, 'nothing is answered: type accept or decline', around.nowMs))
  }
  return { state: close(state), effects: [{ do: 'answerEula', accepted: word === 'accept' }] }
}

/** The text of the agreement, so many rows further; its last row stays in sight. */
export function scrollEula(
  state: ConsoleState,
  mode: ModeOf<'eula'>,
  rows: number,
  { columns }: Surroundings,
): ConsoleState {
  const last = eulaRows(state.facts.eula?.text ?? '', columns).length - 1
  return { ...state, mode: { ...mode, top: Math.min(Math.max(mode.top + rows, 0), last) } }
}

function pressExport(state: ConsoleState, mode: ModeOf<'export'>, input: Key): Step {
  if (input.name === 'esc') return still(close(state))
  if (input.name !== 'enter') return still({ ...state, mode: { ...mode, editor: typed(mode.editor, input) } })
  const path = mode.editor.text.trim()
  return path === '' ? still(close(state)) : { state: close(state), effects: [{ do: 'export', path }] }
}

function pressConfirmPaste(state: ConsoleState, mode: ModeOf<'paste'>, key: string, around: Surroundings): Step {
  if (key !== 'y' && key !== 'Y') return still(notify(close(state), 'paste dropped', around.nowMs))
  if (state.facts.nodeOfflineSinceMs !== undefined)
    return still(notify(close(state), '✗ not sent: the node is offline', around.nowMs))
  return { state: { ...followTail(close(state)), focus: 'input' }, effects: [{ do: 'send', lines: mode.lines }] }
}

function pressSelect(state: ConsoleState, mode: ModeOf<'select'>, key: string, around: Surroundings): Step {
  const page = Math.max(1, around.pane(state).height - 1)
  const steps: Readonly<Record<string, number>> = { up: -1, k: -1, down: 1, j: 1, pageup: -page, pagedown: page }
  if (key === 'y' || key === 'enter') {
    const [from, to] = mode.from <= mode.to ? [mode.from, mode.to] : [mode.to, mode.from]
    return { state: close(state), effects: [{ do: 'copy', from, to }] }
  }
  if (key === 'esc' || key === 'v' || key === 'q') return still(close(state))
  const step = steps[key]
  if (step === undefined) return still(state)
  const { view } = around.pane(state)
  const index = Math.min(Math.max(view.rank(mode.to) + step, 0), view.length - 1)
  const to = view.at(index) ?? mode.to
  return still(keepVisible({ ...state, mode: { ...mode, to } }, to, around))
}

/** Moves the view when the line is not on it. */
function keepVisible(state: ConsoleState, at: number, around: Surroundings): ConsoleState {
  const pane = around.pane(state)
  if (rowsFrom(pane, state.anchor).some((row) => row.at === at)) return state
  return pauseAt(state, centred(pane, at), around)
}
