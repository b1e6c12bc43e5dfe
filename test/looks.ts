import { setTimeout as sleep } from 'node:timers/promises'

const [FIRST_MS, LONGEST_MS] = [10, 75]

/**
 * Waits before something is looked at again: an eighth of the time that has passed since `start` (of `performance.now`), as each
 * look takes the processor from what is waited for.
 */
export async function betweenLooks(start: number): Promise<void> {
  await sleep(Math.min(LONGEST_MS, Math.max(FIRST_MS, (performance.now() - start) / 8)))
}
