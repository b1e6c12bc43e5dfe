// @module-tag long
import { afterAll, beforeAll, expect, it } from 'vitest'
import { PolicyStage } from '../daemon/backups/policy-stage.ts'

const MINUTES_MS = 60_000

let policies: PolicyStage
beforeAll(async () => {
  policies = await PolicyStage.open()
})
afterAll(() => policies.close())

it('200 servers on three nodes, one of them away: 2 at once on each, and the one that was away is caught up', {
  timeout: 5 * MINUTES_MS,
}, async () => {
  const [one, two, away] = [await policies.node(67), await policies.node(67), await policies.node(66)]
  await Promise.all([one.connect(), two.connect()])
  const policy = await policies.create([one, two, away], { perNode: 2 })
  const begun = performance.now()
  const first = await policies.reach(policy)
  await policies.newest(policy, 'done but for the node away', ({ counts }) => counts.completed === 134, MINUTES_MS)
  const tookMs = performance.now() - begun
  expect([one.most, two.most]).toEqual([2, 2])
  expect([one.made.length, two.made.length, away.made.length]).toEqual([67, 67, 0])
  expect(new Set([...one.made, ...two.made])).toEqual(new Set([...one.servers, ...two.servers]))
  // Two more nights pass without it: each is a run, and what waits goes along.
  for (const completed of [134, 134]) {
    await policies.reach(policy)
    await policies.newest(policy, 'done again', ({ counts }) => counts.completed === completed, MINUTES_MS)
  }
  expect((await policies.runs(policy)).map(({ status }) => status)).toEqual(['running', 'superseded', 'superseded'])
  expect((await policies.get(policy)).counts).toMatchObject({ due: 66, overdue: 66 })
  const caughtUp = performance.now()
  await away.connect()
  const run = await policies.newest(policy, 'over', ({ endedAt }) => endedAt !== null, MINUTES_MS)
  const awayMs = performance.now() - caughtUp
  expect(run).toMatchObject({ status: 'completed', counts: { servers: 200, completed: 200, failed: 0, skipped: 0 } })
  expect(run.id).not.toBe(first.id)
  expect([...away.made].sort()).toEqual([...away.servers].sort())
  expect(away.most).toBe(2)
  expect((await policies.get(policy)).counts).toMatchObject({ due: 0, overdue: 0 })
  process.stdout.write(`134 on two nodes in ${Math.round(tookMs)} ms, 66 on one in ${Math.round(awayMs)} ms\n`)
})
