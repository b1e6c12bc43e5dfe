/** How much a terminal takes, learned from how long its writes take. */
export interface Pace {
  /** So many bytes were taken within `ms`. */
  wrote(bytes: number, ms: number, nowMs: number): void
  /** How many bytes may be written now without a queue that a key would wait behind; endless on a fast terminal. */
  room(nowMs: number): number
}

/** A write that takes longer than this has waited for the terminal. */
const BLOCKED_MS = 25
/** Bytes that may stand between here and a terminal when a write has waited for it. */
const QUEUED = 8192
/** Of what the terminal takes, so much is used: the rest lets the queue run empty. */
const SHARE = 0.85
/** How far ahead may be written. */
const AHEAD_MS = 100
/** How long a terminal counts as slow before it is tried anew. */
const SLOW_FOR_MS = 30_000
/** Bytes a millisecond that even the slowest terminal is given. */
const LEAST = 0.3

/** The pace of a terminal of which nothing is known yet: it counts as fast. */
export function createPace(startMs: number): Pace {
  let bytesPerMs = Number.POSITIVE_INFINITY
  let credit = 0
  let at = startMs
  let slowSince = startMs
  const advance = (nowMs: number): void => {
    if (nowMs - slowSince >= SLOW_FOR_MS) bytesPerMs = Number.POSITIVE_INFINITY
    if (bytesPerMs !== Number.POSITIVE_INFINITY) {
      credit = Math.min(credit + (nowMs - at) * bytesPerMs, AHEAD_MS * bytesPerMs)
    }
    at = nowMs
  }
  return {
    wrote: (bytes, ms, nowMs) => {
      advance(nowMs)
      credit -= bytes
      if (ms < BLOCKED_MS) return
      if (bytesPerMs === Number.POSITIVE_INFINITY) slowSince = nowMs
      // A part of the first write went into the queue at once: only the next one that waits shows how slow it is.
      bytesPerMs = Math.max(LEAST, Math.min(bytesPerMs, (bytes / ms) * SHARE))
      // Before anything else is drawn, the queue runs empty.
      credit = -QUEUED
    },
    room: (nowMs) => {
      advance(nowMs)
      return bytesPerMs === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : Math.max(0, credit)
    },
  }
}
