import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { getJob } from '../../../src/shared/api/jobs.ts'
import type { JobId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { leapingClock } from '../leaping-clock.ts'
import { eventually, quickClock } from '../webhooks/receiver.ts'
import { registerTally, TALLY, type TallyHooks } from './tally-job.ts'

const YEAR_MS = 365 * 24 * 3_600_000

let home: string
let panel: TestPanel | undefined
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-job-clock-'))
})
afterEach(async () => {
  await panel?.close()
  panel = undefined
  await rm(home, { recursive: true })
})

async function add(name: string, { app }: TestPanel): Promise<JobId> {
  const input = { name, steps: 1, lane: name, file: join(home, name), serverId: null, needs: null }
  return (await app.core.db.write((tx) => app.jobs.queue.add(tx, TALLY, { input, cause: 'test' }))) as JobId
}

it('what a clock has written that was a year ahead is due as soon as it was meant to be', async () => {
  const clock = quickClock()
  panel = await startPanel({ clock, dataDir: home })
  const { app, client } = panel
  let fails = 1
  const before: TallyHooks['before'] = async () => {
    if (fails-- > 0) throw new Error('not yet')
  }
  registerTally(app.jobs, { before })
  clock.advance(YEAR_MS)
  const jobId = await add('ahead', panel)
  const status = async () => (await client.call(getJob, { params: { jobId } })).status
  const row = () => app.core.db.read.selectFrom('job').selectAll().where('id', '=', jobId).executeTakeFirstOrThrow()
  await eventually('the first attempt to fail', async () => (await row()).error === 'not yet')
  clock.advance(-YEAR_MS)
  await eventually('the second attempt', async () => (await status()) === 'succeeded')
})

it('what a clock has written that was ahead for a moment, seen by nobody, is due as soon as it was meant to be', async () => {
  let isAhead = false
  const quick = quickClock()
  // Ahead for whoever looks first, and for nobody else.
  const nowMs = (): number => {
    const ms = quick.nowMs() + (isAhead ? YEAR_MS : 0)
    isAhead = false
    return ms
  }
  panel = await startPanel({ clock: { ...quick, nowMs }, dataDir: home })
  const { app, client } = panel
  const createdOf = async (id: JobId): Promise<number> => {
    const query = app.core.db.read.selectFrom('job').select('createdAt').where('id', '=', id)
    return Date.parse((await query.executeTakeFirstOrThrow()).createdAt)
  }
  registerTally(app.jobs)
  let jobId: JobId
  let tries = 0
  do {
    // Of one commit: nobody else looks at the clock between the end of the first and the beginning of the second.
    const ahead = app.core.db.write(async () => {
      isAhead = true
    })
    jobId = await add(`moment ${tries++}`, panel)
    await ahead
  } while ((await createdOf(jobId)) < Date.now() + YEAR_MS / 2 && tries < 20)
  expect(await createdOf(jobId)).toBeGreaterThan(Date.now() + YEAR_MS / 2)
  await eventually(
    'the job to end',
    async () => (await client.call(getJob, { params: { jobId } })).status === 'succeeded',
  )
})

it('a step that does not end when it should holds up no stop, and is taken up by the next start', async () => {
  const clock = leapingClock()
  const first = await startPanel({ clock, dataDir: home })
  let begun = (): void => {}
  const began = new Promise<void>((resolve) => {
    begun = resolve
  })
  registerTally(first.app.jobs, {
    before: () => {
      begun()
      return new Promise(() => {})
    },
  })
  const jobId = await add('stuck', first)
  await began
  const stuck = () => first.client.call(getJob, { params: { jobId } })
  await eventually('its progress to be written', async () => (await stuck()).progress !== null)
  const closed = first.close()
  await eventually('the stop to wait for the step', () => clock.sleepers(8000) > 0)
  clock.leap(8000)
  await closed
  expect(first.log()).toContain('job step did not end in time')
  panel = await startPanel({ dataDir: home })
  registerTally(panel.app.jobs)
  panel.app.jobs.endBackOff({ pool: 'test', lane: 'stuck' })
  const { client } = panel
  const status = async () => (await client.call(getJob, { params: { jobId } })).status
  await eventually('the job to end', async () => (await status()) === 'succeeded')
})
