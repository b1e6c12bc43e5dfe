import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  createTask,
  deleteTask,
  getTask,
  listTasks,
  previewTask,
  type Task,
  updateTask,
} from '../../../src/shared/api/schedules.ts'
import { type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Client } from '../../../src/shared/client.ts'
import { refusal } from '../place-panel.ts'
import { raw } from '../servers/stage.ts'
import { ScheduleStage, type TaskBody } from './schedule-stage.ts'

let s: ScheduleStage
let server: Server
beforeAll(async () => {
  s = await ScheduleStage.open()
  server = await s.server()
})
afterAll(() => s.close())

const edit = ({ serverId, id }: Task, body: TaskBody, client: Client = s.stage.admin): Promise<Task> =>
  client.call(updateTask, { params: { serverId, taskId: id }, body })
const refused = (body: TaskBody, of: { id: string } = server) => refusal(s.create(of, body))
const at = (task: Task) => ({ params: { serverId: task.serverId, taskId: task.id } })

test('a schedule of one step is made, answered and changed as action and payload, and as steps alike', async () => {
  const made = await s.create(server, {
    ...{ name: 'save', action: 'command', payload: { command: 'save-all' }, timeOffset: 5, description: 'often' },
    ...{ schedule: ' 30 4 * * * ', timezone: 'europe/berlin' },
  })
  const step = { action: 'command', payload: { command: 'save-all' }, timeOffset: 5, continueOnFailure: false }
  expect(made).toMatchObject({
    ...{ name: 'save', action: 'command', payload: { command: 'save-all' }, timeOffset: 5, sequenceId: null },
    ...{ steps: [step], schedule: '30 4 * * *', timezone: 'Europe/Berlin', enabled: true, onlyWhenOnline: false },
    ...{ missed: 'once', lastRunAt: null, lastStatus: null, lastError: null, runCount: 0, description: 'often' },
    nextRunAt: expect.stringMatching(/:30:00\.000Z$/),
  })
  expect(await edit(made, { payload: { command: 'save-on' } })).toMatchObject({
    steps: [{ ...step, payload: { command: 'save-on' } }],
  })
  expect(await edit(made, { action: 'restart' })).toMatchObject({ action: 'restart', payload: {}, timeOffset: 5 })
  const two = await edit(made, { steps: [{ action: 'stop' }, { action: 'wait', payload: { seconds: 1 } }] })
  expect(two).toMatchObject({ action: null, payload: null, steps: [{ action: 'stop' }, { action: 'wait' }] })
  expect((await refusal(edit(made, { payload: { command: 'x' } }))).fields).toEqual(['body.action'])
  const off = await edit(made, { enabled: false, description: null })
  expect(off).toMatchObject({ enabled: false, nextRunAt: null, description: null })
  expect(await s.stage.admin.call(getTask, at(made))).toEqual(off)
  expect((await s.stage.admin.call(listTasks, { params: { serverId: server.id } })).map(({ id }) => id)).toContain(
    made.id,
  )
  await s.stage.admin.call(deleteTask, at(made))
  expect((await refusal(s.stage.admin.call(getTask, at(made)))).code).toBe('TASK_NOT_FOUND')
})

test('what cannot be a schedule is refused with the field and the reason', async () => {
  const ok = { action: 'stop' }
  for (const schedule of ['0 0 * *', '* * * * * *', '61 * * * *', '0 24 * * *', '0 0 0 * *', '0 0 30 2 *', '@often', 'every day', '*/0 * * * *', '1,,2 * * * *', '0 0 * * mon-', '9'.repeat(200)]) // biome-ignore format: a list
    expect([schedule, await refused({ ...ok, schedule })]).toMatchObject([
      schedule,
      { code: 'VALIDATION_ERROR', fields: ['body.schedule'] },
    ])
  for (const [body, field] of [
    [{}, 'body.steps'],
    [{ steps: [] }, 'body.steps'],
    [{ steps: Array(21).fill(ok) }, 'body.steps'],
    [{ ...ok, steps: [ok] }, 'body.action'],
    [{ ...ok, timezone: 'Europe/Atlantis' }, 'body.timezone'],
    [{ ...ok, timeOffset: 901 }, 'body.timeOffset'],
    [{ action: 'command' }, 'body.payload'],
    [{ action: 'command', payload: { command: 'two\nlines' } }, 'body.payload.command'],
    [{ action: 'command', payload: { command: ' ' } }, 'body.payload.command'],
    [{ action: 'wait', payload: { seconds: 3601 } }, 'body.payload.seconds'],
    [{ action: 'wait', payload: { seconds: 1, command: 'x' } }, 'body.payload.command'],
    [{ action: 'fly' }, 'body.action'],
    [{ ...ok, missed: 'all' }, 'body.missed'],
  ] as const) {
    const answer = await raw(s.stage.panel, createTask, `/api/servers/${server.id}/tasks`, {
      name: 'x',
      schedule: '@daily',
      ...body,
    })
    expect([body, answer.status, answer.fields]).toEqual([body, 400, [field]])
  }
})

test('a text is read as crontab reads it', async () => {
  const next = async (schedule: string) =>
    (
      await s.stage.admin.call(previewTask, {
        params: { serverId: server.id },
        query: { schedule, timezone: 'UTC', after: '2026-01-01T00:00:00Z' as never, count: 3 },
      })
    ).runs.map((run) => run.at.slice(0, 16))
  expect(await next('@monthly')).toEqual(['2026-02-01T00:00', '2026-03-01T00:00', '2026-04-01T00:00'])
  expect(await next('0 22-1 * * *')).toEqual(['2026-01-01T01:00', '2026-01-01T22:00', '2026-01-01T23:00'])
  expect(await next('5/20 6 * jan MON')).toEqual(['2026-01-05T06:05', '2026-01-05T06:25', '2026-01-05T06:45'])
  // A day of the month or of the week.
  expect(await next('0 0 13 * fri')).toEqual(['2026-01-02T00:00', '2026-01-09T00:00', '2026-01-13T00:00'])
  expect(await next('0 0 * * 7')).toEqual(['2026-01-04T00:00', '2026-01-11T00:00', '2026-01-18T00:00'])
  expect(await next('0 0 * * 7/3')).toEqual(['2026-01-03T00:00', '2026-01-04T00:00', '2026-01-07T00:00'])
  expect(await next('0 0 L * *')).toEqual(['2026-01-31T00:00', '2026-02-28T00:00', '2026-03-31T00:00'])
  expect(await next('0 0 29 2 *')).toEqual(['2028-02-29T00:00', '2032-02-29T00:00', '2036-02-29T00:00'])
})

test('without a time zone it is that of the server, else of the panel', async () => {
  expect((await s.create(server, { action: 'stop', timezone: undefined })).timezone).toBe('UTC')
  const params = { serverId: server.id }
  await s.stage.admin.call(updateServer, { params, body: { timeZone: 'Asia/Tokyo' } as never })
  expect((await s.create(server, { action: 'stop', timezone: undefined })).timezone).toBe('Asia/Tokyo')
})

test('a schedule takes the permission of each of its steps, also to change its time, and who changes steps takes it over', async () => {
  const person = await s.stage.person(['server.schedule', 'server.read', 'server.stop'])
  const task = await s.create(server, { action: 'stop' }, person.client)
  expect(task.owner?.id).toBe(person.id)
  for (const [action, missing] of [
    ['start', ['server.start']],
    ['restart', ['server.start']],
    ['command', ['console.write']],
  ] as const) {
    const payload = action === 'command' ? { command: 'x' } : {}
    expect(await refusal(s.create(server, { action, payload }, person.client))).toMatchObject({
      code: 'PERMISSION_DENIED',
      meta: { missing },
    })
    const foreign = await s.create(server, { action, payload })
    const body = { schedule: '@daily' }
    expect((await refusal(edit(foreign, body, person.client))).code).toBe('PERMISSION_DENIED')
    expect((await refusal(s.execute(foreign, person.client))).code).toBe('PERMISSION_DENIED')
  }
  const later = await edit(task, { schedule: '@daily' })
  expect(later.owner?.id).toBe(person.id)
  expect((await edit(task, { action: 'start' })).owner?.id).not.toBe(person.id)
  const nobody = await s.stage.person(['server.read'])
  expect((await refusal(s.create(server, { action: 'stop' }, nobody.client))).code).toBe('PERMISSION_DENIED')
})

test('changes leave their events and audit rows, with what was and what is', async () => {
  const task = await s.create(server, { action: 'stop', name: 'halt' })
  await edit(task, { name: 'rest', enabled: false })
  await edit(task, { name: 'rest' })
  await s.stage.admin.call(deleteTask, at(task))
  const rows = (await s.stage.audits(task.id)).reverse()
  expect(rows.map(({ action }) => action)).toEqual(['task.create', 'task.update', 'task.delete'])
  expect(rows[1]?.details).toMatchObject({
    serverId: server.id,
    name: { before: 'halt', after: 'rest' },
    enabled: { before: true, after: false },
  })
  const types = (await s.stage.events(server.id)).map(({ type, data }) => [type, JSON.parse(data)] as const)
  const mine = types.filter(([, data]) => data.taskId === task.id)
  expect(mine.map(([type]) => type)).toEqual(['task_created', 'task_updated', 'task_deleted'])
  expect(mine[0]?.[1]).toMatchObject({ taskName: 'halt', createdBy: expect.any(String) })
})

test('what a schedule types is masked in the audit log as what people type', async () => {
  const typing = (command: string) => [{ action: 'command', payload: { command } }] as never
  const task = await s.create(server, { steps: typing('login first-word'), name: 'sign in' })
  await edit(task, { steps: typing('login second-word') })
  await s.stage.admin.call(deleteTask, at(task))
  const rows = (await s.stage.audits(task.id)).reverse()
  expect(rows.map(({ action }) => action)).toEqual(['task.create', 'task.update', 'task.delete'])
  const shown = [{ action: 'command', payload: { command: 'login ********' } }]
  expect(rows[0]?.details).toMatchObject({ steps: shown })
  expect(rows[1]?.details).toMatchObject({ steps: { before: shown, after: shown } })
  expect(JSON.stringify(rows)).not.toMatch(/first-word|second-word/)
})

test('a server has at most a hundred, and none on one that is suspended or being deleted', async () => {
  const full = await s.server()
  await s.stage.db.write(async (tx) => {
    const row = await tx.q.selectFrom('schedule').selectAll().limit(1).executeTakeFirstOrThrow()
    for (let i = 0; i < 100; i++)
      await tx.q
        .insertInto('schedule')
        .values({ ...row, id: `sch_${i}`, serverId: full.id, nextRunAt: null })
        .execute()
  })
  expect(await refused({ action: 'stop' }, full)).toMatchObject({ code: 'TASK_LIMIT_REACHED', meta: { limit: 100 } })
  const other = await s.server()
  await s.stage.set(other.id, { suspendedAt: '2026-01-01T00:00:00.000Z' })
  expect((await refused({ action: 'stop' }, other)).code).toBe('SERVER_SUSPENDED')
  await s.stage.set(other.id, { suspendedAt: null, deletingAt: '2026-01-01T00:00:00.000Z' })
  expect((await refused({ action: 'stop' }, other)).code).toBe('SERVER_INVALID_STATE')
})

test('one that is damaged in the database hides no other, holds none up, and is mended by new steps', async () => {
  const own = await s.server()
  const [bad, good] = [
    await s.create(own, { action: 'stop' }),
    await s.create(own, { action: 'wait', payload: { seconds: 1 } }),
  ]
  await s.stage.db.write((tx) =>
    tx.q.updateTable('schedule').set({ steps: '[{"action":"fly"}]' }).where('id', '=', bad.id).execute(),
  )
  expect(await s.stage.admin.call(listTasks, { params: { serverId: own.id } })).toMatchObject([
    { id: bad.id, steps: [], lastError: expect.stringContaining('damaged') },
    { id: good.id },
  ])
  await s.due(good)
  await expect.poll(async () => (await s.get(good)).lastStatus, { timeout: 20_000 }).toBe('running')
  s.clock.advance(1000)
  expect(await s.ended(good)).toMatchObject({ status: 'success' })
  expect(await s.get(bad)).toMatchObject({ lastStatus: 'failed', nextRunAt: null })
  expect((await refusal(edit(bad, { name: 'x' }))).fields).toEqual(['body.steps'])
  expect(await edit(bad, { steps: [{ action: 'stop' }] })).toMatchObject({ nextRunAt: expect.any(String) })
})
