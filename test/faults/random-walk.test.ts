// @module-tag long
import { expect, it } from 'vitest'
import { walk } from './walk-run.ts'

/** Another walk can be asked for; the one that stands here is the same each time. */
const SEED = Number(process.env['PANEL_TEST_SEED'] ?? 20_263)
const ROUNDS = 4

it('what the API says is so at every rest of a random walk through orders and faults', {
  timeout: 180_000,
}, async () => {
  await expect(walk({ seed: SEED, rounds: ROUNDS })).resolves.toMatchObject({ rounds: ROUNDS })
})
