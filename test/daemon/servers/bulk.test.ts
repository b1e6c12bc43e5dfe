import { afterAll, beforeAll, expect, test } from 'vitest'
import { listAdminServers } from '../../../src/shared/api/admin-servers.ts'
import * as api from '../../../src/shared/api/bulk-servers.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { refusal } from '../place-panel.ts'
import { FACTS, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let away: StageNode
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node({ name: 'near' })
  away = await stage.node({ name: 'faraway' })
  await stage.peer(node)
  template = await stage.template()
})
afterAll(() => stage.close())

const serverIn = (facts: Record<string, unknown>, at = node): Promise<Server> => stage.serverIn(template, at, facts)
const act = (action: api.BulkAction, servers: readonly { id: string }[], client = stage.admin, reason?: string) =>
  client.call(api.bulkServerActions, {
    body: { action, serverIds: servers.map(({ id }) => id), ...(reason === undefined ? {} : { reason }) },
  })
const opsOf = async (server: Server) => (await stage.commands(server.id)).slice(1).map(({ op }) => op)

test('tells of each target what became of it, and acts on those that it can', async () => {
  const stopped = await serverIn(FACTS.stopped)
  const running = await serverIn(FACTS.running)
  const offline = await serverIn(FACTS.stopped, away)
  const suspended = await serverIn(FACTS.suspended)
  const installing = await serverIn(FACTS.installing)
  const { results, summary } = await act('start', [stopped, running, offline, suspended, installing, stopped])
  expect(results).toMatchObject([
    { serverId: stopped.id, status: 'success', commandId: expect.stringMatching(/^cmd_/) },
    { serverId: running.id, status: 'skipped', code: 'SERVER_INVALID_STATE' },
    { serverId: offline.id, status: 'failed', code: 'NODE_OFFLINE' },
    { serverId: suspended.id, status: 'failed', code: 'SERVER_SUSPENDED' },
    { serverId: installing.id, status: 'failed', code: 'SERVER_INVALID_STATE' },
  ])
  expect(summary).toEqual({ success: 1, skipped: 1, failed: 3 })
  expect(await opsOf(stopped)).toEqual(['start'])
  for (const untouched of [running, offline, suspended, installing]) expect(await opsOf(untouched)).toEqual([])
  expect(await stage.audits(stopped.id, 'server.bulk_start')).toHaveLength(1)
})

test('does each action as a single order does it', async () => {
  const [one, two] = [await serverIn(FACTS.running), await serverIn(FACTS.running)]
  const statuses = async (...request: Parameters<typeof act>) =>
    (await act(...request)).results.map(({ status }) => status)
  expect(await statuses('restart', [one, two])).toEqual(['success', 'success'])
  expect(await statuses('kill', [one])).toEqual(['success'])
  expect(await opsOf(one)).toEqual(['restart', 'kill'])
  expect(await statuses('suspend', [one, two], stage.admin, 'unpaid')).toEqual(['success', 'success'])
  expect(await statuses('suspend', [one, two])).toEqual(['skipped', 'skipped'])
  expect(await stage.get(two.id)).toMatchObject({ status: 'suspended', suspensionReason: 'unpaid' })
  expect(await statuses('delete', [one])).toEqual(['failed'])
  expect(await statuses('unsuspend', [one, two])).toEqual(['success', 'success'])
  expect(await statuses('unsuspend', [one])).toEqual(['skipped'])
  await stage.set(one.id, { power: 'offline' })
  await stage.db.write((tx) =>
    tx.q.updateTable('command').set({ state: 'done', endedAt: tx.now }).where('serverId', '=', one.id).execute(),
  )
  expect(await statuses('stop', [one])).toEqual(['skipped'])
  expect(await statuses('delete', [one])).toEqual(['success'])
  expect(await stage.get(one.id)).toMatchObject({ status: 'deleting' })
  const events = (await stage.events(two.id)).filter(
    ({ type }) => type.startsWith('server_') && type.includes('suspend'),
  )
  expect(events.map(({ type, data }) => [type, JSON.parse(data).bulk])).toEqual([
    ['server_suspended', true],
    ['server_unsuspended', true],
  ])
})

test('does nothing at all when one of the servers does not exist', async () => {
  const server = await serverIn(FACTS.stopped)
  const refused = await refusal(act('start', [server, { id: 'srv_none' }, { id: 'srv_nil' }]))
  expect(refused).toMatchObject({ code: 'NOT_FOUND', meta: { missing: ['srv_none', 'srv_nil'] } })
  expect(await opsOf(server)).toEqual([])
})

test('refuses what the caller may not do to a target, and the whole call when that is every one', async () => {
  const warden = await stage.person(['server.start', 'apikey.manage'])
  const own = await serverIn(FACTS.running)
  const other = await serverIn(FACTS.running)
  await stage.set(own.id, { ownerId: warden.id })
  const { results } = await act('stop', [other, own], warden.client)
  expect(results).toMatchObject([
    { serverId: other.id, status: 'failed', code: 'PERMISSION_DENIED' },
    { serverId: own.id, status: 'success' },
  ])
  expect(await opsOf(other)).toEqual([])
  // A restart stops: who may only start gets no further by asking for several at once.
  for (const action of ['stop', 'kill', 'restart', 'suspend', 'unsuspend', 'delete'] as const) {
    expect([action, (await refusal(act(action, [other], warden.client))).code]).toEqual([action, 'PERMISSION_DENIED'])
  }
  const key = await stage.key(warden.client, ['server.start'])
  expect((await refusal(act('stop', [own], key))).code).toBe('PERMISSION_DENIED')
  expect((await refusal(act('stop', [{ id: 'srv_none' }], warden.client))).code).toBe('PERMISSION_DENIED')
  expect(await opsOf(other)).toEqual([])
  expect(await opsOf(own)).toEqual(['stop'])
})

test('refuses wrong lists with the field', async () => {
  const call = async (body: object) =>
    (await refusal(stage.admin.call(api.bulkServerActions, { body: body as never }))).fields
  expect(await call({ action: 'start', serverIds: [] })).toEqual(['body.serverIds'])
  expect(await call({ action: 'start', serverIds: Array.from({ length: 201 }, (_, i) => `srv_${i}`) })).toEqual([
    'body.serverIds',
  ])
  expect(await call({ action: 'dance', serverIds: ['srv_1'] })).toEqual(['body.action'])
  expect(await call({ action: 'start', serverIds: ['../x'] })).toEqual(['body.serverIds.0'])
})

test('suspends, unsuspends and deletes for billing, where a target that is not there fails alone', async () => {
  const [one, two] = [await serverIn(FACTS.stopped), await serverIn(FACTS.suspended)]
  const serverIds = [one.id, two.id, 'srv_none']
  const suspended = await stage.admin.call(api.bulkSuspend, {
    body: { serverIds, reason: 'unpaid', stopServer: false },
  })
  expect(suspended).toMatchObject({
    success: [one.id],
    failed: [
      { id: two.id, code: 'SERVER_ALREADY_SUSPENDED' },
      { id: 'srv_none', code: 'SERVER_NOT_FOUND' },
    ],
    summary: { total: 3, succeeded: 1, failed: 2 },
  })
  expect(await opsOf(one)).toEqual(['apply'])
  const free = await stage.admin.call(api.bulkUnsuspend, { body: { serverIds } })
  expect(free).toMatchObject({ success: [one.id, two.id], failed: [{ code: 'SERVER_NOT_FOUND' }] })
  expect(await stage.admin.call(api.bulkDelete, { body: { serverIds: [one.id] } })).toMatchObject({ success: [one.id] })
  expect(await stage.admin.call(api.bulkRemove, { body: { serverIds: [two.id] } })).toMatchObject({ success: [two.id] })
  expect(await stage.audits(one.id, 'server.bulk_delete')).toHaveLength(1)
})

test('shows the state of servers in the order that was asked for, and of those that the caller may see', async () => {
  const owner = await stage.person()
  const [own, other] = [await serverIn(FACTS.crashed), await serverIn(FACTS.running)]
  await stage.set(own.id, { ownerId: owner.id })
  const serverIds = [other.id, own.id, 'srv_none', own.id]
  const seen = await owner.client.call(api.bulkStatus, { body: { serverIds } })
  expect(seen.map(({ id, status }) => [id, status])).toEqual([
    [other.id, 'not_found'],
    [own.id, 'crashed'],
    ['srv_none', 'not_found'],
    [own.id, 'crashed'],
  ])
  expect(seen[1]).toMatchObject({ name: own.name, primaryPort: own.primaryPort, ownerId: owner.id })
  expect((await stage.admin.call(api.bulkStatus, { body: { serverIds: [other.id] } }))[0]?.status).toBe('running')
})

test('lists the servers of everybody with whose they are', async () => {
  const owner = await stage.person()
  const server = await serverIn(FACTS.stopped, away)
  await stage.set(server.id, { ownerId: owner.id })
  const ids = async (query: object) =>
    (await stage.admin.page(listAdminServers, { query: query as never })).data.map(({ id }) => id)
  const { data } = await stage.admin.page(listAdminServers, { query: { search: server.id } })
  expect(data).toMatchObject([
    { id: server.id, owner: { id: owner.id, email: `${data[0]?.owner?.username}@example.org` } },
  ])
  expect(await ids({ owner: data[0]?.owner?.username.toUpperCase() })).toEqual([server.id])
  expect(await ids({ owner: '@example.org', nodeId: away.id })).toEqual([server.id])
  expect(await ids({ owner: 'nobody has this' })).toEqual([])
  expect(await ids({ search: 'FARAWAY' })).toContain(server.id)
  expect(await ids({ search: 'FARAWAY', status: 'running' })).toEqual([])
  const warden = await stage.person(['server.read'])
  expect((await warden.client.page(listAdminServers, { query: {} })).pagination.total).toBeGreaterThan(5)
  expect((await refusal(owner.client.page(listAdminServers, { query: {} }))).code).toBe('PERMISSION_DENIED')
})
