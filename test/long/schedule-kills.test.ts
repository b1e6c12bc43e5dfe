// @module-tag long
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import { listBackups } from '../../src/shared/api/backups.ts'
import {
  createTask,
  executeTask,
  getTask,
  getTaskRun,
  type Task,
  type TaskRunDetail,
} from '../../src/shared/api/schedules.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'

/** Writes down what is typed. */
const TALK = `
echo ready
while read -r line; do echo "$line" >> typed.txt; echo "got $line"; done
`
/** Writes down each start, and takes two seconds to stop. */
const SLOW = `
echo start >> starts.txt
trap 'sleep 2; echo stop >> stops.txt; exit 0' TERM
echo ready
sleep 1000 &
wait
`
const LIMIT = { timeout: 180_000 }

let panel: SplitPanel
let talk: Server
let slow: Server
let kills = 0
beforeAll(async () => {
  panel = await SplitPanel.enter()
  talk = await panel.makeServer('talk', await panel.makeTemplate('talk', TALK), { start: true, diskMb: 2048 })
  slow = await panel.makeServer('slow', await panel.makeTemplate('slow', SLOW), { start: true })
})
afterAll(() => panel.leave())

const create = (server: Server, body: object): Promise<Task> =>
  panel.client.call(createTask, {
    params: { serverId: server.id },
    body: { name: 'x', schedule: '@yearly', ...body } as never,
  })
const linesOf = async (server: Server, file: string): Promise<string[]> => {
  const text = await readFile(join(panel.filesOf(server.id), file), 'utf8').catch(() => '')
  return text.split('\n').filter((line) => line !== '')
}

/** Runs a schedule, kills the daemon inside its step, starts it again, and answers how the run ended; without a kill if it ended first. */
async function killedIn(
  task: Task,
  isInside: (run: TaskRunDetail) => Promise<boolean> | boolean,
): Promise<TaskRunDetail> {
  const params = { serverId: task.serverId, taskId: task.id }
  const { runId } = await panel.client.call(executeTask, { params })
  const read = () => panel.client.call(getTaskRun, { params: { ...params, taskRunId: runId } })
  const before = await until('the daemon to be inside the step', async () => {
    const run = await read()
    return (run.endedAt !== null || (await isInside(run))) && run
  })
  if (before.endedAt !== null) return before
  await panel.killDaemon()
  kills += 1
  await panel.startDaemon()
  await panel.online()
  const ended = await until('the run to end', async () => {
    const run = await read()
    return run.endedAt === null ? undefined : run
  })
  const after = await panel.client.call(getTask, { params })
  expect(after).toMatchObject({ runId: null, lastStatus: ended.status, runCount: 1 })
  return ended
}

beforeEach(() => {
  kills = 0
})
afterEach(() => expect(kills).toBeGreaterThan(0))

it('a wait goes on with what is left of it', LIMIT, async () => {
  const task = await create(talk, { action: 'wait', payload: { seconds: 8 } })
  const run = await killedIn(task, ({ steps }) => steps[0]?.status === 'running')
  expect(run.status).toBe('success')
  const tookMs = Date.parse(run.endedAt ?? '') - Date.parse(run.startedAt ?? '')
  expect(tookMs).toBeGreaterThanOrEqual(8000)
  expect(tookMs).toBeLessThan(25_000)
})

it('a line is typed once, and the run says that nobody knows', LIMIT, async () => {
  let run: TaskRunDetail | undefined
  const typed: string[] = []
  // What follows a line is listened to for a second; a kill that comes later is outside of the step.
  while (run?.status !== 'failed' && typed.length < 8) {
    const command = `line ${typed.length}`
    typed.push(command)
    const steps = [
      { action: 'command', payload: { command } },
      { action: 'wait', payload: { seconds: 1 } },
    ]
    run = await killedIn(await create(talk, { steps }), async () =>
      (await linesOf(talk, 'typed.txt')).includes(command),
    )
  }
  expect(run).toMatchObject({
    ...{ status: 'failed', reason: 'INTERRUPTED' },
    steps: [{ status: 'failed' }, { status: 'skipped' }],
  })
  expect(await linesOf(talk, 'typed.txt')).toEqual(typed)
})

it('a stop and a start are ordered once each, and their outcome is that of the order', LIMIT, async () => {
  const steps = [{ action: 'stop' }, { action: 'start' }]
  const run = await killedIn(await create(slow, { steps }), async ({ steps: [stop] }) => {
    return stop?.status === 'running' && (await panel.server(slow.id)).status === 'stopping'
  })
  expect(run).toMatchObject({ status: 'success', steps: [{ status: 'success' }, { status: 'success' }] })
  expect([await linesOf(slow, 'starts.txt'), await linesOf(slow, 'stops.txt')]).toEqual([['start', 'start'], ['stop']])
})

it('a restart is ordered once', LIMIT, async () => {
  const run = await killedIn(await create(slow, { action: 'restart' }), async () => {
    return (await panel.server(slow.id)).status === 'stopping'
  })
  expect(run.status).toBe('success')
  expect([(await linesOf(slow, 'starts.txt')).length, (await linesOf(slow, 'stops.txt')).length]).toEqual([3, 2])
})

it('a kill is ordered once', LIMIT, async () => {
  const task = await create(slow, { steps: [{ action: 'wait', payload: { seconds: 1 } }, { action: 'kill' }] })
  const run = await killedIn(task, ({ steps }) => steps[0]?.status === 'success' || steps[0]?.status === 'running')
  expect(run.status).toBe('success')
  expect((await panel.server(slow.id)).status).toBe('stopped')
  expect((await linesOf(slow, 'stops.txt')).length).toBe(2)
})

it('a backup is made once', LIMIT, async () => {
  await writeFile(join(panel.filesOf(talk.id), 'world.bin'), randomBytes(256 * 1024 * 1024))
  const run = await killedIn(
    await create(talk, { action: 'backup', payload: { name: 'nightly' } }),
    async ({ steps }) => {
      const [backup] = await panel.client.call(listBackups, { params: { serverId: talk.id } })
      return steps[0]?.jobId != null && backup?.status === 'in_progress'
    },
  )
  expect(run).toMatchObject({ status: 'success', steps: [{ status: 'success' }] })
  const all = await panel.client.call(listBackups, { params: { serverId: talk.id } })
  expect(all).toMatchObject([{ name: 'nightly', status: 'completed', jobId: run.steps[0]?.jobId }])
})
