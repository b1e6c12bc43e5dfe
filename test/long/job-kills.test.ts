// @module-tag long
import { expect, it } from 'vitest'
import { type KillPoint, runThroughKills } from '../daemon/jobs/kill-chain.ts'

it('a job of twenty steps survives a kill before and after each of them', { timeout: 300_000 }, async () => {
  const steps = Array.from({ length: 20 }, (_, i) => i + 1)
  const points = steps.flatMap<KillPoint>((step) => [
    ['before', step],
    ['after', step],
    ['committed', step],
  ])
  // After the commit of the last step the job has ended, and there is nothing to go on with.
  const { kills, ended, numbers } = await runThroughKills(20, points.slice(0, -1))
  expect(kills).toBe(59)
  expect(numbers).toEqual(steps)
  expect(ended).toBe('succeeded 20')
})
