import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { registerTally, TALLY } from '../daemon/jobs/tally-job.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { runBriefly } from './command-walk.ts'
import { JOBS } from './job-paths.ts'

let panel: TestPanel
let folder: string
/** Whether steps fail. */
let broken = true
const done = new Set<string>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-jobs-'))
  panel = await startPanel()
  registerTally(panel.app.jobs, {
    before: async () => {
      if (broken) throw new Error('the disk is \u001b[31maway')
    },
  })
})
afterAll(async () => {
  await panel.close()
  await rm(folder, { recursive: true })
})

async function start(name: string, inMs = 0): Promise<string> {
  const input = { file: join(folder, name), name, steps: 2, lane: name, serverId: null, needs: null }
  const { jobs, core } = panel.app
  const at = new Date(core.clock.nowMs() + inMs).toISOString() as never
  return (await core.db.write((tx) => jobs.queue.add(tx, TALLY, { input, cause: 'test', at }))) ?? ''
}

async function run(exit: number, line: string): Promise<{ stdout: string; stderr: string }> {
  const args = line.split(' ')
  const ran = await runBriefly(args, { env: { HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.adminToken } })
  expect(ran.code, `panel ${line}: ${ran.stderr}`).toBe(exit)
  done.add(args.slice(0, 2).join(' '))
  return ran
}
const json = async (line: string) => JSON.parse((await run(0, `${line} -o json`)).stdout)

it('jobs are listed, watched, paused, resumed, cancelled and retried', { timeout: 60_000 }, async () => {
  const once = await start('once')
  // Its only attempt fails, and no other would help.
  const failed = await run(11, `jobs watch ${once}`)
  expect(failed.stderr).toContain('once cannot be done')
  expect(failed.stderr).toContain(`panel jobs view ${once}`)
  await run(7, `jobs retry ${once}`)

  const flaky = await start('flaky')
  const { stderr } = await run(11, `jobs watch ${flaky}`)
  expect(stderr).toContain('the disk is')
  expect(stderr).not.toContain('\u001b')
  broken = false
  expect(await json(`jobs retry ${flaky}`)).toMatchObject({ id: flaky, endedAt: null })
  expect(JSON.parse((await run(0, `jobs watch ${flaky} -o json`)).stdout)).toMatchObject({ status: 'succeeded' })
  await run(2, `jobs retry ${flaky}`)
  await run(7, `jobs cancel ${flaky} --yes`)

  const later = await start('later', 3_600_000)
  expect(await json(`jobs pause ${later}`)).toMatchObject({ status: 'paused' })
  expect((await run(124, `jobs watch ${later} --timeout 1s`)).stderr).toContain('has not ended')
  expect(await json(`jobs resume ${later}`)).toMatchObject({ status: 'queued', nextAttemptAt: expect.any(String) })
  expect((await run(0, 'jobs list --open -o csv')).stdout).toContain('Tally later,queued')
  await run(2, `jobs cancel ${later}`)
  expect(await json(`jobs cancel ${later} --yes`)).toMatchObject({ status: 'cancelled' })
  const view = await run(0, `jobs view ${later}`)
  expect(view.stdout).toContain('line 2')
  expect(await json('jobs list --status failed')).toMatchObject([{ id: once }])
  await run(2, 'jobs list --open --ended')
  await run(6, 'jobs view job_nothing')
  expect(JOBS.filter((path) => !done.has(path))).toEqual([])
})
