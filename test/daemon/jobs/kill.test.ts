import { expect, it } from 'vitest'
import { type KillPoint, runThroughKills } from './kill-chain.ts'

it('a job whose process is killed around its steps has every effect once and in order', {
  timeout: 60_000,
  tags: ['long'],
}, async () => {
  const points: KillPoint[] = [['before', 1], ['after', 1], ['committed', 2], ['after', 4], ['before', 5], ['after', 5]] // biome-ignore format: points
  const { kills, ended, numbers } = await runThroughKills(5, points)
  expect(kills).toBe(points.length)
  expect(numbers).toEqual([1, 2, 3, 4, 5])
  expect(ended).toBe('succeeded 5')
})
