/** What the pace of drawing depends on. */
export interface PaceFacts {
  /** Lines per second. */
  readonly rate: number
  /** How long a frame takes to make, in milliseconds. */
  readonly costMs: number
}

/** From so many lines per second on nobody reads along. */
export const FLOOD_RATE = 100
const SHARE = 10

/**
 * Milliseconds between frames: 30 a second while little arrives, 15 from 100 lines per second on; fewer when a frame is so
 * dear that drawing would take more than a tenth of a core.
 */
export function frameInterval({ rate, costMs }: PaceFacts): number {
  const wanted = rate < FLOOD_RATE ? 1000 / 30 : 1000 / 15
  return Math.min(250, Math.max(wanted, costMs * SHARE))
}

/** Counts lines per second over windows of one second. */
export interface RateMeter {
  /** The rate after `total` lines in all. */
  at(total: number, nowMs: number): number
}

/** A meter that starts at `nowMs` with no line. */
export function createRateMeter(nowMs: number): RateMeter {
  let since = nowMs
  let counted = 0
  let rate = 0
  return {
    at: (total, now) => {
      const elapsed = now - since
      if (elapsed >= 1000) {
        rate = ((total - counted) * 1000) / elapsed
        since = now
        counted = total
      }
      return rate
    },
  }
}
