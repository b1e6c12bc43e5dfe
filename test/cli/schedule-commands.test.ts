import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ScheduleStage } from '../daemon/schedules/schedule-stage.ts'
import { runHere } from './run-here.ts'
import { SCHEDULES } from './schedule-paths.ts'

let s: ScheduleStage
const done = new Set<string>()
beforeAll(async () => {
  s = await ScheduleStage.open()
})
afterAll(() => s.close())

async function run(exit: number, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  const { url, adminToken, home } = s.stage.panel
  const env = { PANEL_URL: url, PANEL_TOKEN: adminToken, PANEL_CONFIG_DIR: home }
  const ran = await runHere(['schedules', ...args], { env })
  expect(ran.code, `panel schedules ${args.join(' ')}: ${ran.stdout} ${ran.stderr}`).toBe(exit)
  done.add(`schedules ${args[0]}`)
  return ran
}
const json = async (...args: string[]) => JSON.parse((await run(0, [...args, '-o', 'json'])).stdout)

it('schedules are made, changed, shown, run, aborted and deleted by the command line', async () => {
  const server = (await s.server()).name
  const steps = [
    '--step',
    'command:say in a minute: restart',
    '--step',
    'wait:1m',
    '--step',
    'power:restart',
    '--step',
    'wait:2',
  ]
  const made = await json(
    'create',
    server,
    '--name',
    'nightly',
    '--cron',
    '0 4 * * *',
    '--tz',
    'Europe/Berlin',
    '--if-online',
    '--missed',
    'skip',
    ...steps,
  )
  expect(made).toMatchObject({
    ...{ name: 'nightly', schedule: '0 4 * * *', timezone: 'Europe/Berlin', onlyWhenOnline: true, missed: 'skip' },
    steps: [
      { action: 'command', payload: { command: 'say in a minute: restart' } },
      { action: 'wait', payload: { seconds: 60 } },
      { action: 'restart' },
      { action: 'wait', payload: { seconds: 2 } },
    ],
  })
  expect((await run(0, ['list', server])).stdout).toMatch(
    /nightly +0 4 \* \* \* +Europe\/Berlin +command:say in a minute: restart, wait:60, power:restart/,
  )
  expect(
    (await run(8, ['create', server, '--name', 'x', '--cron', '61 * * * *', '--step', 'power:stop'])).stderr,
  ).toContain('--cron')
  for (const step of ['fly', 'power:up', 'wait:soon'])
    await run(2, ['create', server, '--name', 'x', '--cron', '@daily', '--step', step])
  await run(2, ['edit', server, 'nightly'])
  const file = join(s.stage.panel.home, 'nightly.yaml')
  await writeFile(file, 'steps:\n  - { action: command, payload: { command: save-all }, continueOnFailure: true }\n')
  expect(await json('edit', server, 'nightly', '-F', file, '--no-if-online', '--description', 'saves')).toMatchObject({
    ...{ onlyWhenOnline: false, description: 'saves', steps: [{ continueOnFailure: true }] },
  })
  expect(await json('disable', server, made.id)).toMatchObject({ enabled: false })
  expect((await run(0, ['next', server, 'nightly', '--count', '1'])).stderr).toContain('is disabled')
  expect((await run(0, ['next', server, '-o', 'json'])).stdout.trim()).toBe('[]')
  expect(await json('enable', server, made.id.slice(4, 24))).toMatchObject({ enabled: true })
  expect((await run(0, ['view', server, 'nightly'])).stdout).toContain('command:save-all (goes on when it fails)')

  const next = await json('next', server, '--count', '3', '--tz', 'UTC')
  expect(next).toMatchObject([
    { schedule: 'nightly', timezone: 'UTC', local: expect.stringMatching(/T0[23]:00:00$/) },
    {},
    {},
  ])
  expect(await json('next', server, '--cron', '@hourly', '--tz', 'Asia/Tokyo', '--count', '2')).toMatchObject([
    { timezone: 'Asia/Tokyo', schedule: null, local: expect.stringMatching(/:00:00\+09:00$/) },
    {},
  ])
  await run(2, ['next', server, '--tz', 'Atlantis'])

  const ran = await run(0, ['run', server, 'nightly', '--wait'])
  expect(ran.stdout).toContain('1. command  success')
  expect(s.peer.typed).toContain('save-all')
  expect((await run(0, ['runs', server, 'nightly'])).stdout).toMatch(/success +manual/)
  expect((await run(0, ['runs', server, 'nightly', '--logs', '--status', 'success'])).stdout).toContain(
    '1. command  success',
  )
  expect(await json('runs', server, 'nightly', '--logs')).toMatchObject([{ steps: [{ output: { lines: [] } }] }])
  await json('edit', server, 'nightly', '--step', 'wait:10m')
  const started = await json('run', server, 'nightly')
  expect(started).toMatchObject({ status: 'running' })
  await run(7, ['run', server, 'nightly', '--no-wait'])
  expect(await json('abort', server, 'nightly', '--yes')).toMatchObject({ runId: started.runId })
  await expect.poll(() => json('runs', server, 'nightly', '--status', 'aborted'), { timeout: 20_000 }).toHaveLength(1)
  await run(7, ['abort', server, 'nightly', '--yes'])
  s.rules = { answer: () => 'failed' }
  await json('edit', server, 'nightly', '--step', 'power:restart')
  expect((await run(11, ['run', server, 'nightly', '--wait'])).stderr).toContain('no such program')

  await run(6, ['view', server, 'nothing'])
  await json('create', server, '--name', 'nightly', '--cron', '@daily', '--step', 'backup:x', '--no-enabled').catch(
    () => undefined,
  )
  await run(0, ['delete', server, made.id, '--yes'])
  await run(6, ['view', server, made.id])
  await run(0, ['delete', server, made.id, '--yes', '--ignore-not-found'])
  expect(SCHEDULES.filter((path) => !done.has(path))).toEqual([])
})
