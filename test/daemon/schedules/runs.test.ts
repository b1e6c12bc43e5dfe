import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { deleteApiKey, listApiKeys } from '../../../src/shared/api/api-keys.ts'
import { cancelJob } from '../../../src/shared/api/jobs.ts'
import { abortTask, deleteTask, type Task } from '../../../src/shared/api/schedules.ts'
import { suspendServer, unsuspendServer } from '../../../src/shared/api/suspension.ts'
import { banUser, deleteUser } from '../../../src/shared/api/users.ts'
import { refusal } from '../place-panel.ts'
import { until } from '../servers/stage.ts'
import { ScheduleStage, type TaskBody } from './schedule-stage.ts'

let s: ScheduleStage
beforeAll(async () => {
  s = await ScheduleStage.open()
})
beforeEach(() => {
  s.rules = {}
})
afterAll(() => s.close())

const WAIT: TaskBody = { action: 'wait', payload: { seconds: 600 } }
const at = ({ serverId, id }: Task) => ({ params: { serverId, taskId: id } })
const abort = (task: Task) => s.stage.admin.call(abortTask, at(task))
const running = (task: Task) =>
  until(`a run of ${task.id} to begin`, async () => ((await s.get(task)).lastStatus === 'running' ? true : undefined))
const stepRuns = (task: Task, number: number) =>
  until(`step ${number} of ${task.id}`, async () => {
    const run = (await s.runs(task))[0]
    return run?.steps[number - 1]?.status === 'running' ? run : undefined
  })
const ordersOf = (serverId: string) =>
  s.peer
    .of('command')
    .filter((one) => one.serverId === serverId)
    .map(({ command }) => command.op)

test('a chain of steps runs in order at its time: a line, a wait, a restart', async () => {
  const server = await s.server()
  const task = await s.create(server, {
    name: 'nightly',
    steps: [
      { action: 'command', payload: { command: 'say restart soon' } },
      { action: 'wait', payload: { seconds: 30 } },
      { action: 'restart' },
    ],
  })
  await s.due(task)
  await s.peer.until('the line', () => s.peer.typed.includes('say restart soon'))
  s.peer.say(server.id, 2)
  await stepRuns(task, 2)
  expect(await s.get(task)).toMatchObject({ lastStatus: 'running', runCount: 1, runId: expect.stringMatching(/^srn_/) })
  expect(ordersOf(server.id)).not.toContain('restart')
  s.clock.advance(30_000)
  const run = await s.ended(task)
  expect(run).toMatchObject({ status: 'success', cause: 'schedule', error: null, reason: null })
  expect(run.steps.map(({ action, status }) => `${action} ${status}`)).toEqual([
    'command success',
    'wait success',
    'restart success',
  ])
  expect(run.steps[0]?.output?.lines.map(({ data }) => data)).toEqual(['line 1', 'line 2'])
  expect(await s.get(task)).toMatchObject({ lastStatus: 'success', runId: null, runCount: 1 })
  expect(s.peer.typed.filter((line) => line === 'say restart soon')).toHaveLength(1)

  const events = (await s.stage.events(server.id)).map(({ type, data }) => ({ type, data: JSON.parse(data) }))
  const mine = events.filter(({ data }) => data.taskId === task.id && data.runId === run.id)
  expect(mine.map(({ type, data }) => `${type} ${data.status} ${data.step ?? ''}`)).toEqual([
    'task_progress running ',
    ...['task_progress running 1', 'task_progress running 2', 'task_progress running 3'],
    'task_complete success ',
  ])
  const rows = await s.stage.audits(server.id)
  const by = rows.filter(({ action }) => action === 'server.power' || action === 'server.console_command')
  expect(by.length).toBeGreaterThanOrEqual(2)
  for (const row of by) expect(JSON.stringify(row)).toContain('schedule nightly of')
})

test('a step that fails ends the run, unless the next one is to follow', async () => {
  const server = await s.server('offline')
  s.rules = { answer: () => 'failed' }
  const steps = [{ action: 'start' }, { action: 'wait', payload: { seconds: 1 } }]
  const stops = await s.create(server, { steps })
  await s.execute(stops)
  const failed = await s.ended(stops)
  expect(failed).toMatchObject({ status: 'failed', cause: 'manual', reason: 'AGENT_ERROR' })
  expect(failed.error).toContain('step 1 (start): no such program')
  expect(failed.steps.map(({ status }) => status)).toEqual(['failed', 'skipped'])
  const goes = await s.create(server, { steps: [{ ...steps[0], continueOnFailure: true }, steps[1]] })
  await s.execute(goes)
  await stepRuns(goes, 2)
  s.clock.advance(1000)
  const ended = await s.ended(goes)
  expect(ended).toMatchObject({ status: 'success', error: '1 of 2 steps failed' })
  expect(ended.steps.map(({ status }) => status)).toEqual(['failed', 'success'])
})

test('power steps wait for what they ordered, and have nothing to do where it is so already', async () => {
  const server = await s.server('offline')
  s.rules = { answer: () => 'none' }
  const start = await s.create(server, { action: 'start' })
  await s.execute(start)
  const order = await s.peer.until('the order', () =>
    s.peer.of('command').find((one) => one.serverId === server.id && one.command.op === 'start'),
  )
  expect((await s.runs(start))[0]).toMatchObject({ status: 'running', steps: [{ commandId: order.id }] })
  s.peer.finish(order)
  s.say(server.id, 'starting', 77)
  await s.stage.status(server.id, 'starting')
  expect((await s.runs(start))[0]?.status).toBe('running')
  s.say(server.id, 'running', 77)
  expect(await s.ended(start)).toMatchObject({ status: 'success' })
  await s.execute(start)
  expect(await s.ended(start, 2)).toMatchObject({ status: 'success', steps: [{ commandId: null }] })
  expect(ordersOf(server.id).filter((op) => op === 'start')).toHaveLength(1)
})

test('nothing runs of a suspended server, which the history says, and what was enabled is so again after it', async () => {
  const server = await s.server()
  const [on, off, open] = [
    await s.create(server, WAIT),
    await s.create(server, { ...WAIT, enabled: false }),
    await s.create(server, WAIT),
  ]
  await s.execute(open)
  await running(open)
  await s.stage.admin.call(suspendServer, { params: { serverId: server.id }, body: { stopServer: false } as never })
  const row = (task: Task) =>
    s.stage.db.read.selectFrom('schedule').selectAll().where('id', '=', task.id).executeTakeFirstOrThrow()
  const history = (task: Task) =>
    s.stage.db.read.selectFrom('scheduleRun').selectAll().where('scheduleId', '=', task.id).orderBy('seq').execute()
  await until('the run to be aborted', async () => ((await history(open))[0]?.status === 'aborted' ? true : undefined))
  expect((await history(open))[0]).toMatchObject({ error: 'The server was suspended' })
  expect(await row(on)).toMatchObject({ enabled: 0, disabledBySuspension: 1 })
  expect((await refusal(s.execute(on))).code).toBe('SERVER_SUSPENDED')
  const { nextRunAt } = await row(on)
  s.clock.advance(Date.parse(nextRunAt ?? '') + 500 - s.clock.nowMs())
  const skipped = await until('the skipped run', async () => (await history(on))[0])
  expect(skipped).toMatchObject({ status: 'skipped', reason: 'SERVER_SUSPENDED', jobId: null })
  expect(await history(off)).toEqual([])
  await s.stage.admin.call(unsuspendServer, { params: { serverId: server.id } })
  expect(await s.get(on)).toMatchObject({
    enabled: true,
    disabledBySuspension: false,
    lastStatus: 'skipped',
    runCount: 0,
  })
  expect(await s.get(off)).toMatchObject({ enabled: false, nextRunAt: null })
  const events = (await s.stage.events(server.id)).filter(
    ({ type, data }) => type === 'task_complete' && data.includes(on.id),
  )
  expect(events.map(({ data }) => JSON.parse(data).status)).toEqual(['skipped'])
})

test('only when online: skipped while the server is stopped, and run while it runs', { tags: ['long'] }, async () => {
  const server = await s.server('offline')
  const task = await s.create(server, { action: 'command', payload: { command: 'save' }, onlyWhenOnline: true })
  await s.due(task)
  expect(await s.ended(task)).toMatchObject({ status: 'skipped', reason: 'SERVER_NOT_RUNNING', steps: [] })
  expect((await refusal(s.execute(task))).code).toBe('SERVER_INVALID_STATE')
  s.say(server.id, 'running')
  await s.stage.status(server.id, 'running')
  await s.due(task)
  expect(await s.ended(task, 2)).toMatchObject({ status: 'success' })
})

test('a run that has not ended is not begun again, at its time or by hand, and can be aborted', async () => {
  const server = await s.server()
  const task = await s.create(server, { action: 'wait', payload: { seconds: 3600 }, schedule: '*/5 * * * *' })
  expect((await refusal(abort(task))).code).toBe('TASK_NOT_RUNNING')
  const { runId } = await s.execute(task)
  expect(await refusal(s.execute(task))).toMatchObject({ code: 'TASK_ALREADY_RUNNING', meta: { runId } })
  await s.due(task)
  const skipped = await until('the skipped run', async () =>
    (await s.runs(task)).find(({ status }) => status === 'skipped'),
  )
  expect(skipped).toMatchObject({ reason: 'STILL_RUNNING' })
  expect(await abort(task)).toEqual({ status: 'aborting', runId })
  const aborted = await until('the end', async () =>
    (await s.runs(task)).find(({ id, endedAt }) => id === runId && endedAt !== null),
  )
  expect(aborted).toMatchObject({
    status: 'aborted',
    error: expect.stringContaining('Aborted by'),
    steps: [{ status: 'failed' }],
  })
  expect(await s.get(task)).toMatchObject({ lastStatus: 'failed', runId: null })
  const again = await s.execute(task)
  await s.stage.admin.call(cancelJob, { params: { jobId: again.jobId as never } })
  expect((await s.ended(task, 3)).status).toBe('aborted')
})

test('a schedule that is deleted takes its run and its history along', { tags: ['long'] }, async () => {
  const task = await s.create(await s.server(), WAIT)
  const { jobId } = await s.execute(task)
  await s.stage.admin.call(deleteTask, at(task))
  const job = () => s.stage.db.read.selectFrom('job').select('status').where('id', '=', jobId).executeTakeFirst()
  await until('the end of its job', async () => ((await job())?.status === 'cancelled' ? true : undefined))
  const left = s.stage.db.read.selectFrom('scheduleRun').select('id').where('scheduleId', '=', task.id)
  expect(await left.execute()).toEqual([])
})

test('the rights of whoever it runs for are looked at before each step', async () => {
  const server = await s.server()
  const person = await s.stage.person(['server.schedule', 'server.read', 'console.write', 'server.stop'])
  const line = { action: 'command', payload: { command: 'by them' } }
  const task = await s.create(server, { name: 'theirs', steps: [WAIT, line] }, person.client)
  await s.due(task)
  await running(task)
  const roles = s.stage.db.read.selectFrom('userRole').select('roleId').where('userId', '=', person.id)
  const [role] = await roles.execute()
  const permit = (permissions: readonly string[]) =>
    s.stage.db.write((tx) =>
      tx.q
        .updateTable('role')
        .set({ permissions: JSON.stringify(permissions) })
        .where('id', '=', role?.roleId ?? '')
        .execute(),
    )
  await permit(['server.schedule', 'server.read', 'server.stop'])
  s.clock.advance(600_000)
  const run = await s.ended(task)
  expect(run).toMatchObject({
    status: 'failed',
    reason: 'PERMISSION_DENIED',
    steps: [{ status: 'failed' }, { status: 'skipped' }],
  })
  expect(run.error).toContain('console.write')
  expect(s.peer.typed).not.toContain('by them')
})

test('a schedule of a banned account, of a revoked key or of nobody fails and says so', {
  tags: ['long'],
}, async () => {
  const server = await s.server()
  const rights = ['server.schedule', 'server.read', 'server.stop', 'server.start', 'apikey.manage']
  const [banned, keyed, gone] = [
    await s.stage.person(rights),
    await s.stage.person(rights),
    await s.stage.person(rights),
  ]
  const key = await s.stage.key(keyed.client, ['server.schedule', 'server.stop'])
  const tasks = [
    await s.create(server, WAIT, banned.client),
    await s.create(server, WAIT, key),
    await s.create(server, WAIT, gone.client),
  ] as const
  await s.stage.admin.call(banUser, { params: { userId: banned.id as never }, body: {} })
  const [made] = await keyed.client.call(listApiKeys, {})
  await keyed.client.call(deleteApiKey, { params: { keyId: (made?.id ?? '') as never } })
  await s.stage.admin.call(deleteUser, { params: { userId: gone.id as never } })
  expect((await s.get(tasks[2])).owner).toBeNull()
  await s.due(tasks[2])
  for (const task of tasks) expect(await s.ended(task)).toMatchObject({ status: 'failed', reason: 'PERMISSION_DENIED' })
})

test('a run by hand has the rights of whoever asks, and the audit log names both', async () => {
  const server = await s.server()
  const person = await s.stage.person(['server.schedule', 'server.read', 'server.stop'])
  const task = await s.create(server, { name: 'halt', action: 'stop' })
  await s.execute(task, person.client)
  expect(await s.ended(task)).toMatchObject({ status: 'success', cause: 'manual', userId: person.id })
  const stop = (await s.stage.audits(server.id)).find(({ action }) => action === 'server.power')
  expect(stop).toMatchObject({ userId: person.id })
  expect(JSON.stringify(stop)).toMatch(/schedule halt of \w+, run by user\d+/)
})

test('of runs of a schedule the newest fifty are kept, of those that were skipped twenty', {
  tags: ['long'],
}, async () => {
  const server = await s.server('offline')
  const task = await s.create(server, { action: 'stop', onlyWhenOnline: true, schedule: '* * * * *' })
  for (let i = 1; i <= 22; i++) {
    const before = (await s.get(task)).nextRunAt
    await s.due(task)
    await until('the next time', async () => ((await s.get(task)).nextRunAt === before ? undefined : true))
  }
  expect(await s.runs(task)).toHaveLength(20)
})
