import type { Facts } from '../model/facts.ts'
import type { ConsoleState } from '../model/model.ts'

/** The state in one place; every change asks for a new frame. */
export interface Store {
  get(): ConsoleState
  set(state: ConsoleState): void
  facts(change: (facts: Facts) => Facts): void
  /** Asks for a frame without a change of state, as when lines have arrived. */
  touch(): void
}

/** A store that calls `onChange` for every request of a frame. */
export function createStore(first: ConsoleState, onChange: () => void): Store {
  let state = first
  const set = (next: ConsoleState): void => {
    if (next === state) return
    state = next
    onChange()
  }
  return {
    get: () => state,
    set,
    facts: (change) => set({ ...state, facts: change(state.facts) }),
    touch: onChange,
  }
}
