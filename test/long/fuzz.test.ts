import { expect, it } from 'vitest'
import { fuzzGateway } from '../faults/fuzz-run.ts'

/** Another seed in each run; it stands in the name, so that a failure can be had again. */
const seed = Number(process.env['PANEL_TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31))

it(`the gateway bears 100,000 frames of any kind (PANEL_TEST_SEED=${seed})`, async () => {
  await expect(fuzzGateway(100_000, seed, 6)).resolves.toBeUndefined()
})
