/** How much a terminal takes, learned from how long its writes take. */
export interface Pace {
  /** So many bytes were taken, and for `ms` of that time there was nothing to do but to wait. */
  wrote(bytes: number, ms: number, nowMs: number): void
  /** How many bytes may be written now without a queue that a key would wait behind; endless on a fast terminal. */
  room(nowMs: number): number
}

/** A write that takes longer than this has waited for the terminal, or the machine was busy. */
const BLOCKED_MS = 40
/** Two such writes within so long, with so many bytes between them, are those of a slow terminal. */
const AGAIN_MS = 15_000
const FILLING = 8192
/** Bytes that Linux keeps between a program and its terminal when a write has waited for it. */
const QUEUED = 20_480
/** Of what the terminal takes, so much is used: the rest lets the queue run empty. */
const SHARE = 0.85
/** How far ahead may be written. */
const AHEAD_MS = 100
/** How long a terminal counts as slow before it is tried anew: each time longer, for trying fills the queue again. */
const SLOW_FOR_MS = 60_000
const SLOW_AT_MOST_MS = 960_000
/** Bytes a millisecond that even the slowest terminal is given. */
const LEAST = 0.3

/** The pace of a terminal of which nothing is known yet: it counts as fast. */
export function createPace(startMs: number): Pace {
  let bytesPerMs = Number.POSITIVE_INFINITY
  let credit = 0
  let at = startMs
  let slowUntil = startMs
  let slowForMs = SLOW_FOR_MS / 2
  let waitedAt = Number.NEGATIVE_INFINITY
  let sent = 0
  const advance = (nowMs: number): void => {
    if (nowMs >= slowUntil) bytesPerMs = Number.POSITIVE_INFINITY
    if (nowMs >= slowUntil + slowForMs) slowForMs = SLOW_FOR_MS / 2
    if (bytesPerMs !== Number.POSITIVE_INFINITY) {
      credit = Math.min(credit + (nowMs - at) * bytesPerMs, AHEAD_MS * bytesPerMs)
    }
    at = nowMs
  }
  return {
    wrote: (bytes, ms, nowMs) => {
      advance(nowMs)
      credit -= bytes
      sent += bytes
      if (ms < BLOCKED_MS) return
      const elapsed = nowMs - waitedAt
      if (bytesPerMs !== Number.POSITIVE_INFINITY) {
        bytesPerMs = Math.max(LEAST, bytesPerMs * SHARE)
      } else if (elapsed <= AGAIN_MS && sent < FILLING) {
        return
      } else {
        const taken = sent / elapsed
        waitedAt = nowMs
        sent = 0
        if (elapsed > AGAIN_MS) return
        // From one full queue to the next, the terminal has taken what was written meanwhile.
        bytesPerMs = Math.max(LEAST, taken * SHARE)
        slowForMs = Math.min(SLOW_AT_MOST_MS, slowForMs * 2)
        slowUntil = nowMs + slowForMs
      }
      // Before anything else is drawn, the queue runs empty.
      credit = -QUEUED
    },
    room: (nowMs) => {
      advance(nowMs)
      return bytesPerMs === Number.POSITIVE_INFINITY ? Number.POSITIVE_INFINITY : Math.max(0, credit)
    },
  }
}
