import { expect, it } from 'vitest'
import { ALL_EGGS } from './egg-files.ts'
import { MOST_MS, mutated, randomOf, timed, tried } from './mutations.ts'

it('four hundred broken eggs are imported or refused with a reason, each in a tenth of a second', () => {
  const random = randomOf(20_260_501)
  for (const { text } of ALL_EGGS) tried(text)
  const seen = new Set<string>()
  for (let round = 0; round < 400; round++) {
    const text = mutated(ALL_EGGS[random(ALL_EGGS.length)]?.text ?? '', random)
    const { outcome, ms } = timed(text)
    seen.add(outcome)
    expect(ms, `round ${round}`).toBeLessThan(MOST_MS)
  }
  expect([...seen].sort()).toEqual(['imported', 'refused as a document', 'refused as an egg'])
})
