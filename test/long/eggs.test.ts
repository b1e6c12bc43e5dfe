// @module-tag long
import { expect, it } from 'vitest'
import { ALL_EGGS } from '../eggs/egg-files.ts'
import { mutated, randomOf, tried } from '../eggs/mutations.ts'

it('ten thousand broken eggs are imported or refused with a reason, each in a tenth of a second', {
  timeout: 600_000,
}, () => {
  const random = randomOf(11)
  for (const { text } of ALL_EGGS) tried(text)
  const count = { imported: 0, 'refused as an egg': 0, 'refused as a document': 0 }
  for (let round = 0; round < 10_000; round++) {
    const text = mutated(ALL_EGGS[random(ALL_EGGS.length)]?.text ?? '', random)
    const before = process.cpuUsage()
    count[tried(text)]++
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1000, `round ${round}`).toBeLessThan(100)
  }
  for (const number of Object.values(count)) expect(number).toBeGreaterThan(500)
})
