// @module-tag long
import { performance } from 'node:perf_hooks'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { listServers } from '../../src/shared/api/servers.ts'
import { QUICK } from '../daemon/jobs/tally-job.ts'
import { startPanel, type TestPanel } from '../panel.ts'

const JOBS = 10_000
const LANES = 500

let panel: TestPanel
let done = 0
const order = new Map<string, number[]>()

beforeAll(async () => {
  panel = await startPanel()
  panel.app.jobs.register(QUICK, {
    steps: {
      do: {
        run: async ({ job }) => {
          const [lane = '', number] = job.input.lane.split('#')
          order.set(lane, [...(order.get(lane) ?? []), Number(number)])
          return async (tx) => {
            tx.onCommit(() => {
              done += 1
            })
            return undefined
          }
        },
      },
    },
  })
})
afterAll(() => panel.close())

it('10,000 jobs that are due at once drain while the API answers', { timeout: 300_000 }, async () => {
  const { jobs, core } = panel.app
  const times: number[] = []
  const begun = performance.now()
  let draining = true
  const asking = (async () => {
    while (draining) {
      const at = performance.now()
      await panel.client.call(listServers, {})
      times.push(performance.now() - at)
    }
  })()
  for (let from = 0; from < JOBS; from += 500) {
    await core.db.write(async (tx) => {
      for (let i = from; i < from + 500; i++)
        await jobs.queue.add(tx, QUICK, { input: { lane: `${i % LANES}` }, cause: 'test' })
    })
  }
  const added = performance.now()
  while (done < JOBS) await new Promise((resolve) => setTimeout(resolve, 50))
  draining = false
  await asking
  times.sort((a, b) => a - b)
  const p99 = times[Math.floor(times.length * 0.99)] ?? 0
  process.stdout.write(
    `added in ${Math.round(added - begun)} ms, drained ${Math.round(performance.now() - added)} ms later; ` +
      `${times.length} requests, p99 ${p99.toFixed(1)} ms, longest ${(times.at(-1) ?? 0).toFixed(1)} ms\n`,
  )
  expect(p99).toBeLessThan(50)
})
