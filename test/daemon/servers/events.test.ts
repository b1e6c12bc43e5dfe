import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { deleteServer, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { report } from '../agent-peer.ts'
import type { ConsoleReader } from '../console-reader.ts'
import { type Person, Stage, type StageNode, until } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template
let owner: Person

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template()
  owner = await stage.person()
})
afterAll(() => stage.close())
afterEach(() => stage.closeReaders())

const rename = (server: Server, name: string) =>
  stage.admin.call(updateServer, { params: { serverId: server.id }, body: { name } })
const greeting = (reader: ConsoleReader) => reader.until('the greeting', (r) => r.of('connected')[0])
const created = (differs: object = {}) => stage.create(template, node, differs)

test('greets first, and then tells what happens to this server alone', async () => {
  const [server, other] = [await created(), await created()]
  const stream = stage.watch(`${server.id}/events`)
  const hello = await greeting(stream)
  expect(stream.frames[0]).toBe(hello)
  expect(hello).toMatchObject({
    id: undefined,
    data: { type: 'connected', serverId: server.id, isGlobal: false, resumed: false, missed: false },
  })
  expect(hello.data['lastEventId']).toMatch(/^[0-9a-z]+-\d+$/)
  await rename(other, 'not mine')
  await rename(server, 'renamed')
  const update = await stream.until('the update', (r) => r.of('server_updated')[0])
  expect(update).toMatchObject({ data: { type: 'server_updated', serverId: server.id, change: 'name' } })
  expect(update.data['timestamp']).toMatch(/Z$/)
  expect(new Set(stream.frames.map(({ data }) => data['serverId']))).toEqual(new Set([server.id]))
  expect(stream.of('server_updated')).toHaveLength(1)
})

test('refuses unknown types and unknown servers before the stream begins', async () => {
  const server = await created()
  for (const [path, status] of [
    [`${server.id}/events?types=nonsense`, 400],
    [`${server.id}/events?types=server_updated,user_created`, 400],
    ['srv_none/events', 404],
    [`${server.id}/events?types=${'x'.repeat(1001)}`, 400],
  ] as const) {
    const stream = stage.watch(path)
    await stream.until('the answer', (r) => r.status !== 0)
    expect({ path, status: stream.status }).toEqual({ path, status })
  }
  const stranger = stage.watch(`${server.id}/events`, { token: owner.token })
  await stranger.until('the answer', (r) => r.status !== 0)
  expect(stranger.status).toBe(403)
})

test('carries only the chosen types, and ends with the server all the same', async () => {
  const server = await created()
  const stream = stage.watch(`${server.id}/events?types=server_command_done,resource_stats`)
  await greeting(stream)
  await rename(server, 'unseen')
  await rename(server, 'unseen too')
  await stream.until('the end of the replaced order', (r) => r.of('server_command_done').length === 2)
  await stage.admin.call(deleteServer, { params: { serverId: server.id }, query: { force: 'true' } })
  expect((await stream.until('the end', (r) => r.of('error')[0])).data).toMatchObject({ error: 'server_deleted' })
  await stream.until('the close', (r) => r.ended)
  expect(new Set(stream.frames.map(({ event }) => event))).toEqual(
    new Set(['connected', 'server_command_done', 'error']),
  )
})

test('resumes after the last event that was seen, and says when that is not known', async () => {
  const server = await created()
  const stream = stage.watch(`${server.id}/events?types=server_updated`)
  await greeting(stream)
  for (let i = 0; i < 5; i++) await rename(server, `name ${i}`)
  await stream.until('five updates', (r) => r.of('server_updated').length === 5)
  const ids = stream.of('server_updated').map(({ id }) => id)
  stream.close()
  for (const [i, id] of ids.entries()) {
    const again = stage.watch(`${server.id}/events?types=server_updated`, { lastEventId: id })
    expect(await greeting(again)).toMatchObject({ data: { resumed: true, missed: false } })
    await again.until('the rest', (r) => r.of('server_updated').length === 4 - i)
    expect(again.of('server_updated').map((frame) => frame.id)).toEqual(ids.slice(i + 1))
    again.close()
  }
  const epoch = ids[0]?.split('-')[0]
  for (const lastEventId of ['junk', 'another-3', `${epoch}-999999`]) {
    const lost = stage.watch(`${server.id}/events`, { lastEventId })
    expect(await greeting(lost)).toMatchObject({ data: { resumed: false, missed: true } })
  }
})

test('loses and repeats nothing for a reader who resumes while things happen', async () => {
  const server = await created()
  const names = Array.from({ length: 40 }, (_, i) => `busy ${i}`)
  const first = stage.watch(`${server.id}/events?types=server_updated`)
  await greeting(first)
  const work = Promise.all(names.map((name) => rename(server, name)))
  const seen: (string | undefined)[] = []
  let lastEventId = (await first.until('one', (r) => r.of('server_updated')[0])).id
  seen.push(lastEventId)
  first.close()
  while (seen.length < 40) {
    const next = stage.watch(`${server.id}/events?types=server_updated`, { lastEventId })
    await next.until('some', (r) => r.of('server_updated').length > 0)
    const some = next
      .of('server_updated')
      .slice(0, 7)
      .map(({ id }) => id)
    next.close()
    seen.push(...some)
    lastEventId = some.at(-1)
  }
  await work
  const all = (await stage.events(server.id)).filter(({ type }) => type === 'server_updated')
  expect(seen).toEqual(all.map(({ id }) => `${String(lastEventId).split('-')[0]}-${id}`))
})

test('all servers are those that the viewer may read, at the time of each event', async () => {
  const mine = await created({ ownerId: owner.id })
  const other = await created()
  const stream = stage.watch('all-servers/events', { token: owner.token })
  expect((await greeting(stream)).data).toMatchObject({ serverId: 'all-servers', isGlobal: true })
  const everything = stage.watch('all-servers/events')
  await greeting(everything)
  await rename(other, 'hidden')
  await rename(mine, 'shown')
  await stream.until('his own', (r) => r.of('server_updated').length === 1)
  await everything.until('both', (r) => r.of('server_updated').length === 2)
  const later = await created({ ownerId: owner.id })
  await stream.until('the new one', (r) => r.of('server_created').length === 1)
  await stage.set(mine.id, { ownerId: other.ownerId })
  await rename(mine, 'no longer his')
  await stage.admin.call(deleteServer, { params: { serverId: other.id }, query: { force: 'true' } })
  await stage.admin.call(deleteServer, { params: { serverId: later.id }, query: { force: 'true' } })
  const end = await stream.until('the deletion of his own', (r) => r.of('server_deleted')[0])
  expect(end.data).toMatchObject({ serverId: later.id, serverName: later.name })
  expect(new Set(stream.frames.map(({ data }) => data['serverId']))).toEqual(
    new Set(['all-servers', mine.id, later.id]),
  )
  expect(stream.of('server_updated')).toHaveLength(1)
})

test('asks the node for figures as long as somebody looks, and forgets those of a server that is gone', async () => {
  const own = await stage.node()
  const server = await stage.create(template, own)
  const peer: AgentPeer = await stage.peer(own, { servers: [report(server.id)] })
  const watched = () => peer.requests.flatMap((request) => (request.op === 'stats.watch' ? [request.serverIds] : []))
  const stream = stage.watch(`${server.id}/events`)
  await greeting(stream)
  await peer.until('the request', () => watched().at(-1)?.includes(server.id))
  const figures = {
    cpuCores: 0.05,
    memoryMb: 32,
    diskMb: 5,
    ioReadBytes: '1048576',
    ioWriteBytes: '0',
    networkRxBytes: null,
    networkTxBytes: null,
    processes: 2,
    uptimeMs: 5,
  }
  peer.send({ type: 'stats', servers: [{ serverId: server.id, ...figures }] } as never)
  const pushed = await stream.until('the figures', (r) => r.of('resource_stats')[0])
  expect(pushed).toMatchObject({
    id: undefined,
    data: { serverId: server.id, cpuPercent: 50, cpuCores: 0.05, memoryUsageMb: 32, memoryTotalMb: 64, diskIoMb: 1 },
  })
  const second = stage.watch(`${server.id}/events`)
  await second.until('the last figures', (r) => r.of('resource_stats')[0])
  expect(second.frames.map(({ event }) => event)).toEqual(['connected', 'resource_stats'])
  expect(await stage.get(server.id)).toMatchObject({ cpuPercent: 50, memoryUsageMb: 32, diskUsageMb: 5 })
  peer.event({
    type: 'server.state',
    report: report(server.id, { power: 'offline', pid: null, uptimeMs: null }),
    previous: 'running',
    commandId: null,
  })
  await stage.status(server.id, 'stopped')
  expect(await stage.get(server.id)).toMatchObject({ cpuPercent: null, memoryUsageMb: null, diskUsageMb: 5 })
  second.close()
  stream.close()
  await until('nobody to look', async () => (watched().at(-1)?.length === 0 ? true : undefined))
})

test('a node that goes makes its running servers unknown, and one that comes back tells what is', async () => {
  const own = await stage.node()
  const [up, down] = [await stage.create(template, own), await stage.create(template, own)]
  const rest = report(down.id, { power: 'offline', pid: null, uptimeMs: null })
  const peer = await stage.peer(own, { servers: [report(up.id), rest] })
  await stage.status(up.id, 'running')
  const stream = stage.watch(`${up.id}/events?types=server_state_update`)
  await greeting(stream)
  await peer.leave()
  expect(await stage.status(up.id, 'unknown', 45_000)).toMatchObject({
    lastKnownStatus: 'running',
    node: { isOnline: false },
  })
  expect((await stage.get(down.id)).status).toBe('stopped')
  const back = await stage.peer(own, { servers: [report(up.id), rest] })
  await stream.until('its return', (r) => r.of('server_state_update').at(-1)?.data['state'] === 'running')
  expect(stream.of('server_state_update').map(({ data }) => data['state'])).toEqual(['unknown', 'running'])
  await back.leave()
}, 60_000)
