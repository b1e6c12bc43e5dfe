// @module-tag long
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createTask, getTask, listTaskRuns, type Task } from '../../../src/shared/api/schedules.ts'
import { Stage, until } from '../servers/stage.ts'
import { quickClock } from '../webhooks/receiver.ts'
import { ScheduleStage } from './schedule-stage.ts'

const SCHEDULES = 100
/** A machine that runs other tests beside it takes its time for so many. */
const LIMIT = { timeout: 180_000 }

let home: string
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-schedules-'))
})
afterEach(() => rm(home, { recursive: true }))

test('a hundred that are due in the same minute on three nodes run once each, and one node that is away holds up none', LIMIT, async () => {
  const clock = quickClock()
  const stage = await Stage.open({ clock })
  try {
    const template = await stage.template()
    const nodes = [await stage.node(), await stage.node(), await stage.node()]
    const peers = [await stage.peer(nodes[0] as never), await stage.peer(nodes[1] as never)]
    const away = nodes[2]?.id
    // After a start, nodes get a minute to come back.
    clock.advance(61_000, 'both')
    const tasks: (Task & { nodeId: string })[] = []
    for (const node of nodes) {
      const server = await stage.serverIn(template, node, { power: 'running' })
      for (const peer of peers) peer.log(server.id)
      for (let i = 0; tasks.length < SCHEDULES && i < 34; i++) {
        const body = {
          name: `task ${tasks.length}`,
          schedule: '0 0 1 1 *',
          timezone: 'UTC',
          action: 'command' as const,
        }
        const payload = { command: `line ${tasks.length}` }
        const made = await stage.admin.call(createTask, { params: { serverId: server.id }, body: { ...body, payload } })
        tasks.push({ ...made, nodeId: node.id })
      }
    }
    expect(tasks).toHaveLength(SCHEDULES)
    const due = Date.parse(tasks[0]?.nextRunAt ?? '')
    clock.advance(due + 100 - clock.nowMs())
    const ended = () => stage.db.read.selectFrom('scheduleRun').selectAll().where('endedAt', 'is not', null).execute()
    await until('all to be done', async () => ((await ended()).length === SCHEDULES ? true : undefined), 120_000)
    const rows = await ended()
    const here = tasks.filter(({ nodeId }) => nodeId !== away)
    const typed = peers.flatMap((peer) => peer.typed).sort()
    expect(typed).toEqual(here.map(({ payload }) => String(payload?.['command'])).sort())
    for (const task of tasks) {
      const runs = rows.filter(({ scheduleId }) => scheduleId === task.id)
      const expected =
        task.nodeId === away ? { status: 'skipped', reason: 'NODE_OFFLINE' } : { status: 'success', reason: null }
      expect(runs).toMatchObject([{ ...expected, cause: 'schedule', dueAt: task.nextRunAt }])
    }
    const next = new Set(
      (await stage.db.read.selectFrom('schedule').select('nextRunAt').execute()).map((row) => row.nextRunAt),
    )
    expect([...next]).toEqual([new Date(Date.UTC(new Date(due).getUTCFullYear() + 1, 0, 1)).toISOString()])
  } finally {
    await stage.close()
  }
})

test('what was due while the daemon was away runs once or is left out, and a node that is late is waited for', async () => {
  const stage = await ScheduleStage.open({ dataDir: home })
  const server = await stage.server()
  const every = { schedule: '*/5 * * * *', action: 'command' }
  const once = await stage.create(server, { ...every, payload: { command: 'once' }, missed: 'once' })
  const skip = await stage.create(server, { ...every, payload: { command: 'skip' }, missed: 'skip' })
  await stage.close()
  const again = await ScheduleStage.open({ dataDir: home, aheadMs: 3_600_000 }, { ...stage, server })
  try {
    const missed = await again.ended(once)
    expect(missed).toMatchObject({ status: 'success', cause: 'missed', dueAt: once.nextRunAt })
    expect(await again.runs(once)).toHaveLength(1)
    expect(await again.runs(skip)).toMatchObject([{ status: 'skipped', reason: 'MISSED' }])
    expect(again.peer.typed).toEqual(['once'])
  } finally {
    await again.close()
  }
})

test('a clock that was a year ahead and is set back holds no schedule up', async () => {
  const s = await ScheduleStage.open()
  try {
    const server = await s.server('offline')
    const hourMs = 3_600_000
    s.clock.advance(365 * 24 * hourMs)
    const task = await s.create(server, { action: 'stop' })
    s.clock.advance(-365 * 24 * hourMs)
    const beganMs = s.clock.nowMs()
    const run = await until('its run', async () => {
      s.clock.advance(120_000)
      return (await s.runs(task))[0]
    })
    expect(Date.parse(run.dueAt) - beganMs).toBeLessThan(48 * hourMs)
  } finally {
    await s.close()
  }
})

test('a run at a change of the clocks comes once', async () => {
  const s = await ScheduleStage.open()
  try {
    const server = await s.server('offline')
    const leap = (iso: string): void => s.clock.advance(Date.parse(iso) - s.clock.nowMs())
    leap('2031-03-30T00:59:00Z')
    const body = { action: 'stop', schedule: '30 2 * * *', timezone: 'Europe/Berlin' }
    const task = await s.create(server, body)
    expect(task.nextRunAt).toBe('2031-03-30T01:00:00.000Z')
    leap('2031-03-30T01:00:01Z')
    expect(await s.ended(task)).toMatchObject({ status: 'success', dueAt: '2031-03-30T01:00:00.000Z' })
    expect((await s.get(task)).nextRunAt).toBe('2031-03-31T00:30:00.000Z')
    leap('2031-10-26T00:30:01Z')
    await until('the run of autumn', async () => ((await s.runs(task)).length === 2 ? true : undefined))
    leap('2031-10-26T01:30:01Z')
    const { serverId, id: taskId } = task
    expect((await s.stage.admin.call(getTask, { params: { serverId, taskId } })).nextRunAt).toBe(
      '2031-10-27T01:30:00.000Z',
    )
    expect(await s.stage.admin.call(listTaskRuns, { params: { serverId, taskId } })).toHaveLength(2)
  } finally {
    await s.close()
  }
})
