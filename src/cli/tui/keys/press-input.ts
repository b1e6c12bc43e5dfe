import { EMPTY_EDITOR, edit, editorWith, insert } from '../model/editor.ts'
import {
  type ConsoleState,
  followTail,
  notify,
  type Step,
  type Surroundings,
  still,
  typingRefusal,
  withCommand,
} from '../model/model.ts'
import { editKey } from './edit-keys.ts'
import { type Key, keyName } from './keys.ts'

/** A key while the input line has the focus. */
export function pressInput(state: ConsoleState, input: Key, around: Surroundings): Step {
  const key = keyName(input)
  switch (key) {
    case 'esc':
      return still({ ...state, focus: 'log' })
    case 'enter':
      return submit(state, around)
    case 'up':
    case 'ctrl-p':
      return still(recall(state, -1))
    case 'down':
    case 'ctrl-n':
      return still(recall(state, 1))
    case 'ctrl-r':
      return still({ ...state, mode: { kind: 'recall', query: '', skip: 0 } })
    case 'tab':
      return still(complete(state, around))
    case 'ctrl-d':
      return still({ ...state, editor: edit(state.editor, 'delete') })
    default:
      break
  }
  const motion = editKey(key)
  if (motion !== undefined) return still({ ...state, editor: edit(state.editor, motion) })
  if (input.ctrl || input.alt || [...input.name].length !== 1) return still(state)
  return still({ ...state, editor: insert(state.editor, input.name), recalled: undefined })
}

/** Sends what is typed; what cannot be sent stays in the line. */
function submit(state: ConsoleState, around: Surroundings): Step {
  const { text } = state.editor
  if (text.trim() === '') return still(state)
  const refusal = typingRefusal(state)
  if (refusal !== undefined) return still(notify(state, refusal, around.nowMs))
  if (text.length > 4096) return still(notify(state, 'too long: a command has at most 4096 characters', around.nowMs))
  if (state.facts.nodeOfflineSinceMs !== undefined) {
    return still(notify(state, '✗ not sent: the node is offline; the text is kept', around.nowMs))
  }
  const history = withCommand(state.history, text)
  // The answer comes at the end of the log.
  const sent: ConsoleState = {
    ...followTail(state),
    editor: { ...EMPTY_EDITOR, killed: state.editor.killed },
    history,
    recalled: undefined,
  }
  return {
    state: sent,
    effects: [{ do: 'send', lines: [text] }, ...(history === state.history ? [] : [{ do: 'remember' as const, text }])],
  }
}

/** Walks through the typed commands; beyond the newest stands what was being typed. */
function recall(state: ConsoleState, direction: -1 | 1): ConsoleState {
  const { history, recalled } = state
  const draft = recalled?.draft ?? state.editor.text
  const index = (recalled?.index ?? history.length) + direction
  if (index < 0 || index > history.length) return state
  if (index === history.length) return { ...state, recalled: undefined, editor: editorWith(draft, state.editor) }
  return { ...state, recalled: { index, draft }, editor: editorWith(history[index] ?? '', state.editor) }
}

/** Completes the first word from those typed lately, newest first; several candidates are named. */
function complete(state: ConsoleState, around: Surroundings): ConsoleState {
  const { text, cursor } = state.editor
  const typed = text.slice(0, cursor)
  if (/\s/.test(typed)) return state
  const words = new Set([...state.history].reverse().map((command) => command.trim().split(/\s+/)[0] ?? ''))
  const candidates = [...words].filter((word) => word.startsWith(typed) && word !== typed)
  const only = candidates[0]
  if (only === undefined) return state
  const common = candidates.reduce(sharedStart)
  const next = candidates.length === 1 ? `${only} ` : common
  const rest = text.slice(cursor)
  const editor = { ...state.editor, text: next + rest.trimStart(), cursor: next.length }
  const completed = { ...state, editor }
  return candidates.length === 1 ? completed : notify(completed, candidates.slice(0, 12).join('  '), around.nowMs)
}

function sharedStart(one: string, other: string): string {
  let length = 0
  while (length < one.length && one[length] === other[length]) length += 1
  return one.slice(0, length)
}
