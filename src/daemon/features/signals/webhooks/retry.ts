import { randomInt } from 'node:crypto'

/** Attempts until a message is given up: with the waits between them about 20 hours. */
export const ATTEMPTS = 10

const FIRST_MS = 5000
const LONGEST_MS = 6 * 3_600_000
const LONGEST_PAUSE_MS = 300_000

/**
 * How long a message waits after its n-th attempt has failed: 5 s, 20 s, 80 s, 5 min and so on up to 6 hours, each a fifth
 * longer or shorter by chance, so that messages that failed together do not come back together.
 */
export function waitAfter(attempts: number, retryAfterMs: number | null): number {
  const wait = Math.min(LONGEST_MS, FIRST_MS * 4 ** (attempts - 1))
  return Math.max(Math.round((wait * randomInt(800, 1201)) / 1000), retryAfterMs ?? 0)
}

/** How long a lane backs off after so many failures in a row: a dead receiver with many messages is not hammered. */
export function laneBackOff(failuresInARow: number): number {
  return Math.min(LONGEST_PAUSE_MS, 500 * 2 ** Math.min(failuresInARow, 20))
}
