import { EMPTY_EDITOR, insert } from '../model/editor.ts'
import { openEula } from '../model/eula.ts'
import {
  type ConsoleState,
  notify,
  openExport,
  openPower,
  type Step,
  type Surroundings,
  scrollBy,
  still,
  toggleMouse,
  typingRefusal,
} from '../model/model.ts'
import { editKey } from './edit-keys.ts'
import { type Input, type Key, keyName } from './keys.ts'
import { pressInput } from './press-input.ts'
import { pressLog } from './press-log.ts'
import { pressMode, scrollEula } from './press-mode.ts'

const TWICE_MS = 1000
const WHEEL_ROWS = 3

/** What one key or paste does. */
export function press(before: ConsoleState, input: Input, around: Surroundings): Step {
  if (input.kind === 'paste') return pressPaste(before, input.text, around)
  if (input.kind === 'wheel') return turnWheel(before, input.notches, around)
  if (input.alt && !takesAlt(before, input)) return pressInTurn(before, input, around)
  const detaching = pressDetach(before, input)
  if (detaching.effects.length > 0 || detaching.state.detachTyped > 0) return detaching
  const state = detaching.state
  const key = keyName(input)
  if (key === 'ctrl-c') return pressCancel(state, around)
  if (key === 'ctrl-l') return { state, effects: [{ do: 'redraw' }] }
  if (state.mode.kind !== 'none') return pressMode(state, input, around)
  return (
    pressAnywhere(state, key, around) ??
    (state.focus === 'input' ? pressInput(state, input, around) : pressLog(state, key, around))
  )
}

/** Only where text is typed some keys mean something with Alt. */
function takesAlt(state: ConsoleState, input: Key): boolean {
  const typing = state.mode.kind === 'none' ? state.focus === 'input' : 'editor' in state.mode
  return typing && editKey(keyName(input)) !== undefined
}

/** An Escape and a key that came so close together that they look like the key with Alt. */
function pressInTurn(state: ConsoleState, input: Key, around: Surroundings): Step {
  const first = press(state, { kind: 'key', name: 'esc', ctrl: false, alt: false }, around)
  const second = press(first.state, { ...input, alt: false }, around)
  return { state: second.state, effects: [...first.effects, ...second.effects] }
}

function turnWheel(state: ConsoleState, notches: number, around: Surroundings): Step {
  if (state.mode.kind === 'eula') return still(scrollEula(state, state.mode, notches * WHEEL_ROWS, around))
  if (state.mode.kind !== 'none' && state.mode.kind !== 'select') return still(state)
  return scrollBy(state, notches * WHEEL_ROWS, around)
}

/** The detach key, or several in a row; keys of an unfinished row are swallowed. */
function pressDetach(state: ConsoleState, input: Key): Step {
  const wanted = state.detachKeys[state.detachTyped]
  const hit = wanted !== undefined && wanted.name === input.name.toLowerCase() && wanted.ctrl === input.ctrl
  if (!hit) return still(state.detachTyped === 0 ? state : { ...state, detachTyped: 0 })
  const typed = state.detachTyped + 1
  if (typed < state.detachKeys.length) return still({ ...state, detachTyped: typed })
  return { state: { ...state, detachTyped: 0 }, effects: [{ do: 'detach' }] }
}

/**
 * Ctrl-C stops what is still being sent; otherwise it clears what is being typed, and twice in a second it detaches. The game
 * never notices.
 */
function pressCancel(state: ConsoleState, around: Surroundings): Step {
  if (state.queued > 0) return { state: { ...state, clearedAtMs: undefined }, effects: [{ do: 'stopSending' }] }
  const twice = state.clearedAtMs !== undefined && around.nowMs - state.clearedAtMs < TWICE_MS
  if (twice) return { state, effects: [{ do: 'detach' }] }
  const cleared: ConsoleState = {
    ...state,
    mode: { kind: 'none' },
    editor: EMPTY_EDITOR,
    recalled: undefined,
    clearedAtMs: around.nowMs,
  }
  return still(notify(cleared, 'Ctrl-C again detaches; the game keeps running', around.nowMs))
}

function pressAnywhere(state: ConsoleState, key: string, around: Surroundings): Step | undefined {
  const page = Math.max(1, around.pane(state).height - 1)
  switch (key) {
    case 'pageup':
      return scrollBy(state, -page, around)
    case 'pagedown':
      return scrollBy(state, page, around)
    case 'f1':
      return still({ ...state, mode: { kind: 'help' } })
    case 'f5':
      return still(openPower(state, around))
    case 'f6':
      return still(openExport(state, around))
    case 'f7':
      return still(openEula(state, around))
    case 'f9':
      return toggleMouse(state, around)
    default:
      return undefined
  }
}

function pressPaste(state: ConsoleState, text: string, around: Surroundings): Step {
  const lines = text
    .split(/\r\n|\r|\n/)
    .map((line) => line.replace(/\p{Cc}/gu, ''))
    .filter((line) => line.trim() !== '')
  const first = lines[0]
  if (first === undefined) return still(state)
  const { mode } = state
  if (mode.kind === 'ask' || mode.kind === 'kill' || mode.kind === 'export')
    return still({ ...state, mode: { ...mode, editor: insert(mode.editor, first) } })
  if (mode.kind !== 'none') return still(state)
  const refusal = typingRefusal(state)
  if (refusal !== undefined) return still(notify(state, refusal, around.nowMs))
  if (lines.length === 1) return still({ ...state, focus: 'input', editor: insert(state.editor, first) })
  return still({ ...state, mode: { kind: 'paste', lines } })
}
