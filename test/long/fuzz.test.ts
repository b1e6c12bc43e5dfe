// @module-tag long
import { expect, it } from 'vitest'
import { fuzzGateway } from '../faults/fuzz-run.ts'

/** Other cases in each run; the seed stands in the names, so that a failure can be had again. */
const SEED = Number(process.env['PANEL_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const PARTS = 10
const CASES = 10_000

it.each(Array.from({ length: PARTS }, (_, i) => SEED + i * CASES))(
  'the gateway bears 10,000 frames of any kind (seed %i)',
  async (seed) => {
    await expect(fuzzGateway(CASES, seed, 6)).resolves.toBeUndefined()
  },
)
