// @module-tag long
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listBackups, updateBackupSettings } from '../../../src/shared/api/backups.ts'
import {
  abortTask,
  createTask,
  executeTask,
  getTaskRun,
  type Task,
  type TaskRunDetail,
} from '../../../src/shared/api/schedules.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Client } from '../../../src/shared/client.ts'
import { refusal } from '../place-panel.ts'
import { Stage, until } from '../servers/stage.ts'

let stage: Stage
let server: Server
beforeAll(async () => {
  stage = await Stage.open({ agent: true })
  const made = await stage.create(
    await stage.template({ installScript: 'echo installed', installEntrypoint: 'sh' }),
    stage.here,
  )
  server = await until('the installation', async () => {
    const now = await stage.get(made.id)
    return now.installed && now.status === 'stopped' ? now : undefined
  })
})
afterAll(() => stage.close())

const create = (body: object, client: Client = stage.admin): Promise<Task> =>
  client.call(createTask, {
    params: { serverId: server.id },
    body: { name: 'keep', schedule: '@daily', ...body } as never,
  })
const backups = () => stage.admin.call(listBackups, { params: { serverId: server.id } })

async function ran(task: Task, client: Client = stage.admin): Promise<TaskRunDetail> {
  const params = { serverId: server.id, taskId: task.id }
  const { runId } = await client.call(executeTask, { params })
  return until('the run to end', async () => {
    const run = await stage.admin.call(getTaskRun, { params: { ...params, taskRunId: runId } })
    return run.endedAt === null ? undefined : run
  })
}

test('a backup is made for whoever the run is for, by its name and patterns, and kept as the settings say', async () => {
  const person = await stage.person(['server.schedule', 'server.read', 'backup.create'])
  const payload = { name: 'before patch/1', ignored: ['*.log'] }
  const task = await create({ name: 'keep', action: 'backup', payload }, person.client)
  const run = await ran(task, person.client)
  expect(run).toMatchObject({
    status: 'success',
    steps: [{ status: 'success', jobId: expect.stringMatching(/^job_/) }],
  })
  const [backup] = await backups()
  expect(backup).toMatchObject({
    ...{ name: 'before_patch_1', status: 'completed', createdBy: person.id, ignored: ['*.log'] },
    jobId: run.steps[0]?.jobId,
  })
  const [audit] = await stage.audits(backup?.id ?? '', 'backup.create')
  expect(audit).toMatchObject({ userId: person.id })
  expect(JSON.stringify(audit)).toContain('schedule keep of')
  const body = { retentionCount: 2 }
  await stage.admin.call(updateBackupSettings, { params: { serverId: server.id }, body })
  const plain = await create({ action: 'backup' })
  for (let i = 0; i < 3; i++) expect((await ran(plain)).status).toBe('success')
  await until('the oldest to be gone', async () => ((await backups()).length === 2 ? true : undefined))
})

test('a backup that is refused fails its step and leaves none, and who may make none cannot have one made', async () => {
  const before = await backups()
  const nobody = await stage.person(['server.schedule', 'server.read'])
  expect((await refusal(create({ action: 'backup' }, nobody.client))).code).toBe('PERMISSION_DENIED')
  const params = { serverId: server.id }
  await stage.admin.call(updateBackupSettings, { params, body: { backupAllocationMb: 0 } })
  const task = await create({ steps: [{ action: 'backup' }, { action: 'wait', payload: { seconds: 1 } }] })
  expect(await ran(task)).toMatchObject({
    ...{ status: 'failed', reason: 'BACKUP_DISABLED' },
    steps: [{ status: 'failed', jobId: null }, { status: 'skipped' }],
  })
  expect((await refusal(stage.admin.call(abortTask, { params: { ...params, taskId: task.id } }))).code).toBe(
    'TASK_NOT_RUNNING',
  )
  expect(await backups()).toHaveLength(before.length)
})
