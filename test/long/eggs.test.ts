// @module-tag long
import { expect, it } from 'vitest'
import { ALL_EGGS } from '../eggs/egg-files.ts'
import { MOST_MS, mutated, randomOf, timed, tried } from '../eggs/mutations.ts'

it('ten thousand broken eggs are imported or refused with a reason, each in a tenth of a second', {
  timeout: 600_000,
}, () => {
  const random = randomOf(11)
  for (const { text } of ALL_EGGS) tried(text)
  const count = { imported: 0, 'refused as an egg': 0, 'refused as a document': 0 }
  for (let round = 0; round < 10_000; round++) {
    const text = mutated(ALL_EGGS[random(ALL_EGGS.length)]?.text ?? '', random)
    const { outcome, ms } = timed(text)
    count[outcome]++
    expect(ms, `round ${round}`).toBeLessThan(MOST_MS)
  }
  for (const number of Object.values(count)) expect(number).toBeGreaterThan(500)
})
