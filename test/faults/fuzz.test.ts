import { expect, it } from 'vitest'
import { fuzzGateway } from './fuzz-run.ts'

it('the gateway bears 800 frames of any kind, and another node does not notice', { timeout: 120_000 }, async () => {
  await expect(fuzzGateway(800, 20_261, 4)).resolves.toBeUndefined()
})
