import { centred, rowsFrom } from '../log/viewport.ts'
import { type ConsoleState, notify, pauseAt, type Surroundings } from './model.ts'

/** Goes to the next older (-1) or newer (1) match, as soon as the search has come to it. */
export function seekMatch(state: ConsoleState, direction: -1 | 1, around: Surroundings): ConsoleState {
  if (state.search === undefined) return notify(state, 'no search; / starts one', around.nowMs)
  const from = state.matchAt ?? (state.follow ? around.ring.end : lastVisible(state, around) + 1)
  return settleSeek({ ...state, seek: { from, direction } }, around, false)
}

/**
 * Comes to the match that is being sought when it is found. `complete`: all lines have been searched, so what is not found
 * is not there, and the search goes on from the other end.
 */
export function settleSeek(state: ConsoleState, around: Surroundings, complete: boolean): ConsoleState {
  const { seek } = state
  const { matches } = around
  if (seek === undefined || matches === undefined) return state
  const before = matches.rank(seek.from)
  // Older lines are searched from the newest on: the first match found before `from` is the nearest one.
  const index = seek.direction === -1 ? before - 1 : matches.at(before) === seek.from ? before + 1 : before
  const certain = complete || (seek.direction === -1 ? matches.covers(seek.from) : matches.reaches(seek.from))
  const at = certain ? matches.at(index) : undefined
  if (at !== undefined) return show(state, at, around)
  if (!complete) return state
  const other = matches.at(seek.direction === -1 ? matches.length - 1 : 0)
  if (other === undefined)
    return notify({ ...state, seek: undefined }, `no match for /${state.search?.pattern ?? ''}/`, around.nowMs)
  return notify(show(state, other, around), 'search went on from the other end', around.nowMs)
}

function show(state: ConsoleState, at: number, around: Surroundings): ConsoleState {
  const paused = pauseAt(state, centred(around.pane({ ...state, follow: false }), at), around)
  return { ...paused, seek: undefined, matchAt: at }
}

function lastVisible(state: ConsoleState, around: Surroundings): number {
  return rowsFrom(around.pane(state), state.anchor).at(-1)?.at ?? state.anchor.at
}
