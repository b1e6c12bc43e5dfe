// @module-tag long
import { expect, it } from 'vitest'
import { fuzzGateway } from './fuzz-run.ts'

it('the gateway bears 400 frames of any kind, and another node does not notice', {
  timeout: 120_000,
}, async () => {
  await expect(fuzzGateway(400, 20_261, 4)).resolves.toBeUndefined()
})
