import { LEVEL_FILTERS } from '../log/level.ts'
import { TIME_MODES } from '../log/line-rows.ts'
import { rowsFrom } from '../log/viewport.ts'
import { EMPTY_EDITOR, editorWith } from '../model/editor.ts'
import { openEula } from '../model/eula.ts'
import {
  type ConsoleState,
  type Effect,
  followTail,
  notify,
  openExport,
  openPower,
  pause,
  pauseAt,
  type Step,
  type Surroundings,
  scrollBy,
  still,
  toggleMouse,
  topAnchor,
} from '../model/model.ts'
import { seekMatch } from '../model/seek.ts'

const SIDEWAYS = 16

/** A key while the log has the focus. */
export function pressLog(state: ConsoleState, key: string, around: Surroundings): Step {
  const handler = KEYS[key]
  return handler === undefined ? still(state) : handler(state, around)
}

type Handler = (state: ConsoleState, around: Surroundings) => Step

const by = (rows: (height: number) => number): Handler => {
  return (state, around) => scrollBy(state, rows(around.pane(state).height), around)
}
const change = (made: (state: ConsoleState, around: Surroundings) => ConsoleState): Handler => {
  return (state, around) => still(made(state, around))
}
const ask = (effect: Effect): Handler => {
  return (state) => ({ state, effects: [effect] })
}
const toInput = change((state) => (state.readOnly || state.takesNoInput ? state : { ...state, focus: 'input' }))

const KEYS: Readonly<Record<string, Handler>> = {
  i: toInput,
  enter: toInput,
  up: by(() => -1),
  k: by(() => -1),
  down: by(() => 1),
  j: by(() => 1),
  'ctrl-u': by((height) => -Math.max(1, Math.floor(height / 2))),
  'ctrl-d': by((height) => Math.max(1, Math.floor(height / 2))),
  ' ': by((height) => Math.max(1, height - 1)),
  g: change((state, around) => pauseAt(state, { at: around.pane(state).view.at(0) ?? 0, row: 0 }, around)),
  home: change((state, around) => pauseAt(state, { at: around.pane(state).view.at(0) ?? 0, row: 0 }, around)),
  G: change(followTail),
  end: change(followTail),
  f: change((state, around) => (state.follow ? pause(state, around) : followTail(state))),
  '/': change((state) => ({ ...state, mode: { kind: 'ask', what: 'search', editor: EMPTY_EDITOR } })),
  '&': change((state) => ({
    ...state,
    mode: { kind: 'ask', what: 'filter', editor: editorWith(filterText(state)) },
  })),
  n: change((state, around) => seekMatch(state, -1, around)),
  N: change((state, around) => seekMatch(state, 1, around)),
  l: change((state, around) => {
    const level = LEVEL_FILTERS[(LEVEL_FILTERS.indexOf(state.level) + 1) % LEVEL_FILTERS.length] ?? 'all'
    const name = level === 'all' ? 'ALL' : level === 'error' ? 'ERROR' : `${level.toUpperCase()}+`
    return notify({ ...state, level }, `level ${name}`, around.nowMs)
  }),
  t: change((state, around) => {
    const time = TIME_MODES[(TIME_MODES.indexOf(state.time) + 1) % TIME_MODES.length] ?? 'off'
    return notify({ ...state, time }, `timestamps ${time}`, around.nowMs)
  }),
  w: change((state, around) =>
    notify({ ...state, wrap: !state.wrap, shift: 0 }, `wrap ${state.wrap ? 'off' : 'on'}`, around.nowMs),
  ),
  c: change((state, around) => {
    return notify(
      { ...state, colour: !state.colour },
      state.colour ? 'colours stripped' : 'colours as sent',
      around.nowMs,
    )
  }),
  left: change((state) => ({ ...state, shift: Math.max(0, state.shift - SIDEWAYS) })),
  right: change((state) => (state.wrap ? state : { ...state, shift: Math.min(16_384, state.shift + SIDEWAYS) })),
  v: change(startSelection),
  m: change((state, around) => {
    const at = topAnchor(state, around).at
    const known = state.bookmarks.includes(at)
    const bookmarks = known
      ? state.bookmarks.filter((mark) => mark !== at)
      : [...state.bookmarks, at].sort((a, b) => a - b)
    return notify(
      { ...state, bookmarks },
      known ? 'bookmark removed' : `bookmark set (${bookmarks.length})`,
      around.nowMs,
    )
  }),
  "'": change(jumpToBookmark),
  h: (state, around) => {
    const gap = visibleGap(state, around)
    return { state, effects: [gap === undefined ? { do: 'loadOlder' } : { do: 'loadGap', at: gap }] }
  },
  p: change(openPower),
  e: change(openExport),
  E: change(openEula),
  M: toggleMouse,
  '?': change((state) => ({ ...state, mode: { kind: 'help' } })),
  q: ask({ do: 'detach' }),
  esc: change((state) => {
    if (state.filter !== undefined) return { ...state, filter: undefined }
    return { ...state, search: undefined, seek: undefined, matchAt: undefined }
  }),
}

function filterText(state: ConsoleState): string {
  return state.filter === undefined ? '' : `${state.filter.inverse ? '!' : ''}${state.filter.pattern}`
}

function startSelection(state: ConsoleState, around: Surroundings): ConsoleState {
  const paused = pause(state, around)
  const last = rowsFrom(around.pane(paused), paused.anchor).at(-1)
  return last === undefined ? state : { ...paused, mode: { kind: 'select', from: last.at, to: last.at } }
}

/** The next bookmark below the top of the view, and from the last one to the first. */
function jumpToBookmark(state: ConsoleState, around: Surroundings): ConsoleState {
  const marks = state.bookmarks.filter((mark) => mark >= around.ring.first)
  const top = topAnchor(state, around).at
  const target = state.follow ? marks.at(-1) : (marks.find((mark) => mark > top) ?? marks[0])
  if (target === undefined) return notify(state, 'no bookmark; m sets one', around.nowMs)
  return pauseAt(state, { at: target, row: 0 }, around)
}

/** The first gap row on the screen. */
function visibleGap(state: ConsoleState, around: Surroundings): number | undefined {
  const rows = rowsFrom(around.pane(state), topAnchor(state, around))
  return rows.find((row) => around.ring.get(row.at)?.kind === 'gap')?.at
}
