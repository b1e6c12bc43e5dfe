// @module-tag long
import { expect, it } from 'vitest'
import { walk } from '../faults/walk-run.ts'

/** Another walk each time; a failure tells its seed. */
const SEED = Number(process.env['PANEL_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const FOR_MS = 10 * 60_000

it(`what the API says is so at every rest of a random walk of ten minutes (seed ${SEED})`, async () => {
  const { rounds, steps, orders } = await walk({ seed: SEED, forMs: FOR_MS, longCuts: true })
  console.info(`${rounds} rests, ${steps} steps, ${orders} accepted orders`)
  // Both were there in numbers: what is done, and moments in which it is looked at.
  expect(rounds).toBeGreaterThan(30)
  expect(orders).toBeGreaterThan(100)
})
