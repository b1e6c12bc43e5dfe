import type { PowerAction } from '../../../shared/kernel/server-life.ts'
import type { LevelFilter } from '../log/level.ts'
import type { LineIndex } from '../log/line-index.ts'
import type { TimeMode } from '../log/line-rows.ts'
import type { Matcher } from '../log/matcher.ts'
import type { Ring } from '../log/ring.ts'
import { type Anchor, type Pane, scroll, tailAnchor } from '../log/viewport.ts'
import { type Editor, EMPTY_EDITOR, editorWith } from './editor.ts'
import { type Facts, NO_FACTS } from './facts.ts'

/** What stands in the prompt row or over the log besides typing and reading. */
export type Mode =
  | { readonly kind: 'none' }
  | { readonly kind: 'ask'; readonly what: 'search' | 'filter'; readonly editor: Editor }
  | { readonly kind: 'recall'; readonly query: string; readonly skip: number }
  | { readonly kind: 'power' }
  | { readonly kind: 'kill'; readonly editor: Editor }
  | { readonly kind: 'paste'; readonly lines: readonly string[] }
  | { readonly kind: 'help' }
  | { readonly kind: 'export'; readonly editor: Editor }
  | { readonly kind: 'select'; readonly from: number; readonly to: number }
  /** `top`: the first row of its text that is shown. */
  | { readonly kind: 'eula'; readonly editor: Editor; readonly top: number }

/** A command on its way: `problem` says in a sentence why it failed. */
export interface Send {
  readonly id: number
  readonly text: string
  readonly state: 'pending' | 'sent' | 'failed'
  readonly problem?: string
  readonly endedMs?: number
}

/** A search that has not come to its match yet: the index is still being built. */
export interface Seek {
  readonly from: number
  readonly direction: -1 | 1
}

/** Everything the screen shows but the lines themselves. Changed only by making a new one. */
export interface ConsoleState {
  readonly serverName: string
  readonly readOnly: boolean
  /** The game takes no typed lines; orders can be given all the same. */
  readonly takesNoInput: boolean
  readonly detachKeys: readonly { readonly name: string; readonly ctrl: boolean }[]
  readonly detachTyped: number
  readonly focus: 'input' | 'log'
  readonly follow: boolean
  readonly anchor: Anchor
  /** The end of the log when following ended; what came since is new. */
  readonly pausedEnd: number
  readonly shift: number
  readonly time: TimeMode
  readonly wrap: boolean
  readonly colour: boolean
  /** Whether the wheel scrolls; off, the mouse is the terminal's, which selects text with it. */
  readonly mouse: boolean
  readonly level: LevelFilter
  readonly search: Matcher | undefined
  readonly seek: Seek | undefined
  readonly matchAt: number | undefined
  readonly filter: Matcher | undefined
  readonly bookmarks: readonly number[]
  readonly mode: Mode
  readonly editor: Editor
  /** Typed commands, oldest first. */
  readonly history: readonly string[]
  readonly recalled: { readonly index: number; readonly draft: string } | undefined
  readonly sends: readonly Send[]
  /** Lines that wait for their turn, as those of a paste. */
  readonly queued: number
  readonly notice: { readonly text: string; readonly untilMs: number } | undefined
  readonly clearedAtMs: number | undefined
  readonly facts: Facts
}

/** What a key asks of the world. */
export type Effect =
  | { readonly do: 'detach' }
  | { readonly do: 'redraw' }
  | { readonly do: 'send'; readonly lines: readonly string[] }
  | { readonly do: 'remember'; readonly text: string }
  | { readonly do: 'power'; readonly action: PowerAction }
  | { readonly do: 'answerEula'; readonly accepted: boolean }
  | { readonly do: 'copy'; readonly from: number; readonly to: number }
  | { readonly do: 'export'; readonly path: string }
  | { readonly do: 'mouse'; readonly on: boolean }
  | { readonly do: 'stopSending' }
  | { readonly do: 'loadOlder' }
  | { readonly do: 'loadGap'; readonly at: number }

/** A new state and what to do. */
export interface Step {
  readonly state: ConsoleState
  readonly effects: readonly Effect[]
}

/** What keys look at beside the state. */
export interface Surroundings {
  readonly ring: Ring
  readonly pane: (state: ConsoleState) => Pane
  readonly matches: LineIndex | undefined
  /** Where an export goes unless another path is typed. */
  readonly exportPath: string
  /** How wide the screen is. */
  readonly columns: number
  readonly nowMs: number
}

export interface InitialOptions {
  readonly serverName: string
  readonly readOnly: boolean
  readonly takesNoInput?: boolean
  readonly detachKeys: ConsoleState['detachKeys']
  readonly history: readonly string[]
  readonly time: TimeMode
  readonly colour: boolean
}

/** The state before the first line. */
export function initialState(options: InitialOptions): ConsoleState {
  return {
    ...options,
    takesNoInput: options.takesNoInput === true,
    detachTyped: 0,
    focus: options.readOnly || options.takesNoInput === true ? 'log' : 'input',
    follow: true,
    anchor: { at: 0, row: 0 },
    pausedEnd: 0,
    shift: 0,
    wrap: false,
    mouse: true,
    level: 'all',
    search: undefined,
    seek: undefined,
    matchAt: undefined,
    filter: undefined,
    bookmarks: [],
    mode: { kind: 'none' },
    editor: EMPTY_EDITOR,
    recalled: undefined,
    sends: [],
    queued: 0,
    notice: undefined,
    clearedAtMs: undefined,
    facts: NO_FACTS,
  }
}

/** A step that asks for nothing. */
export function still(state: ConsoleState): Step {
  return { state, effects: [] }
}

/** The state with a message for four seconds. */
export function notify(state: ConsoleState, text: string, nowMs: number): ConsoleState {
  return { ...state, notice: { text, untilMs: nowMs + 4000 } }
}

/** Pins the view to the newest line. */
export function followTail(state: ConsoleState): ConsoleState {
  return { ...state, follow: true, seek: undefined, matchAt: undefined }
}

/** Freezes the view with `anchor` at its top. */
export function pauseAt(state: ConsoleState, anchor: Anchor, around: Surroundings): ConsoleState {
  return { ...state, follow: false, anchor, pausedEnd: state.follow ? around.ring.end : state.pausedEnd }
}

/** Freezes the view where it is. */
export function pause(state: ConsoleState, around: Surroundings): ConsoleState {
  return state.follow ? pauseAt(state, topAnchor(state, around), around) : state
}

/** Where the view begins now. */
export function topAnchor(state: ConsoleState, around: Surroundings): Anchor {
  return state.follow ? (tailAnchor(around.pane(state)) ?? { at: around.ring.end, row: 0 }) : state.anchor
}

/** Scrolls by rows. At the bottom it follows again; at the top it asks for the page before. */
export function scrollBy(state: ConsoleState, rows: number, around: Surroundings): Step {
  const pane = around.pane(state)
  if (pane.view.length === 0) return still(state)
  const { anchor, edge } = scroll(pane, topAnchor(state, around), rows)
  if (edge === 'bottom') return still(followTail(state))
  const tail = tailAnchor(pane)
  const fits = tail?.at === anchor.at && tail.row === anchor.row
  const moved = fits && state.follow ? state : pauseAt(state, anchor, around)
  return { state: moved, effects: edge === 'top' ? [{ do: 'loadOlder' }] : [] }
}

/** The state after a gap at `place` was filled with `count` lines: places before it moved down. */
export function shiftPlaces(state: ConsoleState, place: number, count: number): ConsoleState {
  const move = (at: number): number => (at <= place ? at - (count - 1) : at)
  const { mode } = state
  return {
    ...state,
    anchor: { ...state.anchor, at: move(state.anchor.at) },
    bookmarks: state.bookmarks.map(move),
    matchAt: state.matchAt === undefined ? undefined : move(state.matchAt),
    mode: mode.kind === 'select' ? { ...mode, from: move(mode.from), to: move(mode.to) } : mode,
  }
}

const MOST_HISTORY = 500

/** History with one more command; a repetition of the last one adds nothing. */
export function withCommand(history: readonly string[], text: string): readonly string[] {
  return history.at(-1) === text ? history : [...history, text].slice(-MOST_HISTORY)
}

/** Whether the view is narrowed to some lines. */
export function isFiltered(state: ConsoleState): boolean {
  return state.filter !== undefined || state.level !== 'all'
}

/** The power menu, for those who may write. */
export function openPower(state: ConsoleState, around: Surroundings): ConsoleState {
  return state.readOnly ? notify(state, READ_ONLY, around.nowMs) : { ...state, mode: { kind: 'power' } }
}

/** What a screen that only reads answers to keys that would change something. */
export const READ_ONLY = 'attached with --read-only: nothing is sent'

/** The same for what would be typed into a game that takes no input. */
export const NO_INPUT = 'this game takes no input from its console'

/** Why nothing can be typed; `undefined`: it can. */
export function typingRefusal({ readOnly, takesNoInput }: ConsoleState): string | undefined {
  return readOnly ? READ_ONLY : takesNoInput ? NO_INPUT : undefined
}

/** Asks for the file that the lines are written to. */
export function openExport(state: ConsoleState, around: Surroundings): ConsoleState {
  return { ...state, mode: { kind: 'export', editor: editorWith(around.exportPath) } }
}

/** Gives the mouse to the screen or back to the terminal. */
export function toggleMouse(state: ConsoleState, around: Surroundings): Step {
  const on = !state.mouse
  const text = on ? 'mouse on: the wheel scrolls' : 'mouse off: the terminal selects text'
  return { state: notify({ ...state, mouse: on }, text, around.nowMs), effects: [{ do: 'mouse', on }] }
}
