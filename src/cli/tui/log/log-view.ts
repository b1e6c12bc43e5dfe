import type { LineIndex } from './line-index.ts'
import type { Ring } from './ring.ts'

/** The lines that the screen walks over: all that are kept, or those that pass the filter. */
export interface LogView {
  readonly length: number
  /** The place of the `index`-th line, counted from the oldest. */
  at(index: number): number | undefined
  /** How many lines of the view stand before a place. */
  rank(place: number): number
}

/** All lines of a ring, or those that `filter` found. */
export function logView(ring: Ring, filter: LineIndex | undefined): LogView {
  if (filter !== undefined) return filter
  return {
    get length() {
      return ring.length
    },
    at: (index) => (index < 0 || index >= ring.length ? undefined : ring.first + index),
    rank: (place) => Math.min(Math.max(place - ring.first, 0), ring.length),
  }
}
