import { access, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { getLogs } from '../../../src/shared/api/console.ts'
import {
  installServer,
  killServer,
  reinstallServer,
  restartServer,
  startServer,
  stopServer,
} from '../../../src/shared/api/power.ts'
import { deleteServer, getServerStats, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import { updateTemplate } from '../../../src/shared/api/templates.ts'
import { refusal } from '../place-panel.ts'
import { Stage, until } from './stage.ts'

let stage: Stage
let game: { id: string }

beforeAll(async () => {
  stage = await Stage.open({ agent: true })
  game = await stage.template({
    startup: 'echo "ready with $WORD"; while :; do :; done & exec sleep 1000',
    startupDetection: { done: [{ kind: 'contains', value: 'ready' }], stripAnsi: true },
    variables: [{ name: 'WORD', default: 'one' }],
    stopTimeoutSeconds: 5,
  })
})
afterAll(() => stage.close())

const OPS = {
  start: startServer,
  stop: stopServer,
  restart: restartServer,
  kill: killServer,
  install: installServer,
  reinstall: reinstallServer,
}
const order = (action: keyof typeof OPS, server: { id: string }, body: object = {}) =>
  stage.admin.call(OPS[action], { params: { serverId: server.id as never }, body })
const create = (of: { id: string } = game, differs: object = {}) => stage.create(of, stage.here, differs)
const stats = (server: Server) => stage.admin.call(getServerStats, { params: { serverId: server.id } })
const logs = async (server: Server) => {
  const page = await stage.admin.call(getLogs, { params: { serverId: server.id }, query: {} as never })
  return JSON.stringify(page)
}
const folderOf = (server: { id: string }) => join(stage.panel.dataDir, 'agent', 'servers', server.id)
const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )
const remove = (server: Server, query: object = {}) =>
  stage.admin.call(deleteServer, { params: { serverId: server.id }, query: query as never })
const gone = (server: Server) =>
  until('the deletion', async () =>
    (await refusal(stage.get(server.id)).catch(() => ({ code: '' }))).code === 'SERVER_NOT_FOUND' ? true : undefined,
  )

test('a start is told step by step, with its end by the id of the order, and with figures', async () => {
  const server = await create()
  await stage.ended(server.commandId)
  const stream = stage.watch(`${server.id}/events`)
  await stream.until('the greeting', (r) => r.of('connected')[0])
  const { commandId } = await order('start', server)
  await stream.until('the running server', (r) =>
    r.of('server_state_update').some(({ data }) => data['state'] === 'running'),
  )
  const states = stream.of('server_state_update').map(({ data }) => [data['previousState'], data['state']])
  expect(states).toEqual([
    ['stopped', 'starting'],
    ['starting', 'running'],
  ])
  const done = await stream.until('the end of the order', (r) =>
    r.of('server_command_done').find(({ data }) => data['commandId'] === commandId),
  )
  expect(done.data).toMatchObject({ op: 'start', ok: true, noop: false, error: null, serverId: server.id })
  const now = await stage.get(server.id)
  expect(now).toMatchObject({ status: 'running', desired: 'running', powerState: 'running', generation: 2 })
  expect(now.pid).toBeGreaterThan(1)
  // A tenth of a core is its limit: a loop that never rests uses about all of one, as far as the machine lets it.
  const busy = await stream.until('figures of a busy server', (r) =>
    r.of('resource_stats').find(({ data }) => Number(data['cpuCores'] ?? 0) > 0.02),
  )
  expect(busy.id).toBeUndefined()
  const { cpuPercent, cpuCores } = busy.data
  expect(Math.abs(Number(cpuPercent) - Number(cpuCores) * 1000)).toBeLessThan(0.2)
  const first = stream.of('resource_stats').length
  const began = performance.now()
  await stream.until('the figures after next', (r) => r.of('resource_stats').length >= first + 2)
  expect(performance.now() - began).toBeLessThan(7000)
  const figures = await stats(server)
  expect(figures).toMatchObject({
    memoryAllocatedMb: 64,
    memoryTotalMb: 64,
    server: { id: server.id, status: 'running' },
  })
  expect(figures.memoryUsageMb).toBeGreaterThan(0)
  expect(figures.memoryPercentage).toBeCloseTo(((figures.memoryUsageMb ?? 0) / 64) * 100, 0)
  expect(figures.processes).toBeGreaterThan(1)

  expect((await refusal(remove(server))).code).toBe('SERVER_INVALID_STATE')
  const stop = await order('stop', server)
  expect((await refusal(order('start', server))).meta).toMatchObject({
    currentStatus: expect.stringMatching(/stopping|stopped/),
  })
  await stage.ended(stop.commandId)
  const rest = await stage.status(server.id, 'stopped')
  expect(rest).toMatchObject({ pid: null, cpuPercent: null, memoryUsageMb: null, startedAt: null, desired: 'stopped' })
  expect(await stats(server)).toMatchObject({
    cpuPercent: null,
    memoryUsageMb: null,
    memoryPercentage: null,
    processes: null,
    uptimeMs: null,
  })
  await order('start', server)
  await stage.status(server.id, 'running')
  await stage.ended((await order('kill', server)).commandId)
  expect(await stage.status(server.id, 'stopped')).toMatchObject({ lastExitSignal: 'SIGKILL' })
}, 60_000)

test('runs with the value that was set last, and stays stopped when it was stopped right after its start', {
  tags: ['long'],
  timeout: 60_000,
}, async () => {
  const server = await create()
  await stage.admin.call(updateServer, { params: { serverId: server.id }, body: { environment: { WORD: 'seven' } } })
  await order('start', server)
  await stage.status(server.id, 'running')
  expect(await logs(server)).toContain('ready with seven')
  await stage.admin.call(updateServer, { params: { serverId: server.id }, body: { environment: { WORD: 'eight' } } })
  await stage.ended((await order('restart', server)).commandId)
  await stage.status(server.id, 'running')
  expect(await logs(server)).toContain('ready with eight')
  await stage.ended((await order('stop', server)).commandId)
  await stage.status(server.id, 'stopped')
  await order('start', server)
  await stage.ended((await order('stop', server)).commandId)
  expect(await stage.status(server.id, 'stopped')).toMatchObject({ desired: 'stopped' })
})

test('a failing script leaves an error with its reason and its lines, and can be run again', async () => {
  const template = await stage.template({
    installScript: 'echo "fetching the game"; echo "no such mirror" >&2; exit 3',
  })
  const server = await create(template)
  const failed = await stage.status(server.id, 'error')
  expect(failed).toMatchObject({ installed: false, status: 'error' })
  expect(failed.reason).toContain('no such mirror')
  expect(await stage.ended(server.commandId)).toMatchObject({
    state: 'failed',
    error: expect.stringContaining('INSTALL_FAILED'),
  })
  expect(await logs(server)).toContain('fetching the game')
  await stage.admin.call(updateTemplate, {
    params: { templateId: template.id },
    body: { installScript: 'echo fine > game.txt' },
  })
  const again = await order('install', server, { start: true })
  expect(again).toMatchObject({ desired: 'running' })
  expect(await stage.ended(again.commandId)).toMatchObject({ state: 'done' })
  const now = await until('the start', async () => {
    const seen = await stage.get(server.id)
    return seen.powerState === 'starting' || seen.powerState === 'running' ? seen : undefined
  })
  expect(now).toMatchObject({ installed: true, reason: null })
  expect(await readdir(folderOf(server))).toContain('game.txt')
  await stage.ended((await order('kill', server)).commandId)
}, 60_000)

test('an installation keeps files, and a reinstallation wipes them', async () => {
  const template = await stage.template({ installScript: 'echo fine > game.txt' })
  const server = await create(template)
  await stage.ended(server.commandId)
  await writeFile(join(folderOf(server), 'world.dat'), 'my world')
  await stage.ended((await order('install', server)).commandId)
  expect((await readdir(folderOf(server))).sort()).toEqual(['game.txt', 'world.dat'])
  await stage.status(server.id, 'stopped')
  await stage.ended((await order('reinstall', server)).commandId)
  expect(await readdir(folderOf(server))).toEqual(['game.txt'])
  expect(await stage.status(server.id, 'stopped')).toMatchObject({ installed: true })
})

test('while installing nothing but a second installation and the deletion is taken', async () => {
  const template = await stage.template({ installScript: 'echo begun; sleep 1000' })
  const server = await create(template)
  await stage.status(server.id, 'installing')
  for (const action of ['start', 'stop', 'kill', 'restart', 'reinstall'] as const) {
    expect(await refusal(order(action, server))).toMatchObject({
      code: 'SERVER_INVALID_STATE',
      meta: { currentStatus: 'installing' },
    })
  }
  expect((await order('install', server)).commandId).toBe(server.commandId)
  const folder = folderOf(server)
  expect(await exists(folder)).toBe(true)
  await remove(server)
  await gone(server)
  expect(await exists(folder)).toBe(false)
})

test('a deletion takes the files with it, unless they are to be kept', async () => {
  const template = await stage.template({ installScript: 'echo fine > game.txt' })
  const [plain, kept, forced] = [await create(template), await create(template), await create(template)]
  for (const server of [plain, kept, forced]) await stage.ended(server.commandId)
  await until('rest', async () => ((await stage.get(forced.id)).status === 'stopped' ? true : undefined))
  const all = stage.watch('all-servers/events?types=server_deleted')
  await all.until('the greeting', (r) => r.of('connected')[0])
  await remove(plain)
  await remove(kept, { keepFiles: 'true' })
  await remove(forced, { force: 'true' })
  for (const server of [plain, kept, forced]) await gone(server)
  await until('the empty folders', async () =>
    (await exists(folderOf(plain))) || (await exists(folderOf(forced))) ? undefined : true,
  )
  expect(await readdir(folderOf(kept))).toEqual(['game.txt'])
  await all.until('all three', (r) => r.of('server_deleted').length === 3)
  expect(
    all
      .of('server_deleted')
      .map(({ data }) => data['serverName'])
      .sort(),
  ).toEqual([plain.name, kept.name, forced.name].sort())
})
