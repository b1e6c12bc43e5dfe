import { randomInt } from 'node:crypto'

const FIRST_MS = 1000
const LONGEST_MS = 600_000

/**
 * How long a step waits after its n-th failed attempt where it does not say so itself: 1 s, 2 s, 4 s and so on up to ten
 * minutes, each a fifth longer or shorter by chance, so that what failed together does not come back together.
 */
export function backOff(attempt: number): number {
  const wait = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(attempt - 1, 20))
  return Math.round((wait * randomInt(800, 1201)) / 1000)
}
