import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { listAllocations } from '../../../src/shared/api/allocations.ts'
import { assignNode } from '../../../src/shared/api/assignments.ts'
import { updateNode } from '../../../src/shared/api/nodes.ts'
import { startServer } from '../../../src/shared/api/power.ts'
import { patchServer, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import type { Client } from '../../../src/shared/client.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { refusal } from '../place-panel.ts'
import { type Person, raw, Stage, type StageNode, until } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template
let owner: Person
let server: Server

const variables = [
  { name: 'WORD', default: 'one', rules: ['max:20'] },
  { name: 'RCON', secret: true, default: 'initial-secret' },
  { name: 'FIXED', default: 'a', userEditable: false },
  { name: 'HIDDEN', default: 'out-of-sight', userViewable: false },
]

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template({ variables })
  owner = await stage.person()
})
afterAll(() => stage.close())
beforeEach(async () => {
  server = await stage.create(template, node, { ownerId: owner.id, environment: { RCON: 'hunter2-secret' } })
})

const edit = (body: Record<string, unknown>, client: Client = stage.admin, of: Server = server) =>
  client.call(updateServer, { params: { serverId: of.id }, body: body as never })
const stored = () =>
  stage.db.read.selectFrom('server').selectAll().where('id', '=', server.id).executeTakeFirstOrThrow()

test('changes each field, tells the node, and writes what changed', async () => {
  const body = {
    name: 'Renamed', description: 'about', allocatedMemoryMb: 128, allocatedCpuCores: 0.25, allocatedDiskMb: 100,
    allocatedSwapMb: 16, startupCommand: 'sleep 5', restartPolicy: 'always', maxCrashCount: 9, environment: { WORD: 'two' },
    primaryPort: stage.port(),
  } // biome-ignore format: columns
  const { environment, ...plain } = body
  const changed = await edit(body)
  expect(changed).toMatchObject({ ...plain, generation: 2, environment: { ...environment, FIXED: 'a' } })
  expect(await edit({ description: null, startupCommand: null })).toMatchObject({
    description: null,
    startupCommand: null,
    generation: 3,
  })
  const audits = await stage.audits(server.id, 'server.update')
  expect(audits).toHaveLength(2)
  expect(JSON.stringify(audits)).toContain('"after":"Renamed"')
  const updates = (await stage.events(server.id)).filter(({ type }) => type === 'server_updated')
  expect(updates).toHaveLength(2)
})

test('PATCH is the same as PUT', async () => {
  const changed = await stage.admin.call(patchServer, { params: { serverId: server.id }, body: { name: 'patched' } })
  expect(changed).toMatchObject({ name: 'patched', generation: 2 })
})

test('what the node has nothing to do with is no order', async () => {
  const orders = () => stage.db.read.selectFrom('command').select('id').where('serverId', '=', server.id).execute()
  const before = await orders()
  const changed = await edit({ description: 'for people', databaseAllocation: 3 })
  expect(changed).toMatchObject({ description: 'for people', databaseAllocation: 3, generation: 1, appliesAt: 'now' })
  expect(await orders()).toEqual(before)
  expect(await stage.audits(server.id, 'server.update')).toHaveLength(1)
})

test('an edit that changes nothing writes nothing', async () => {
  const before = await stored()
  const same = {
    name: server.name,
    allocatedMemoryMb: 64,
    primaryPort: server.primaryPort,
    environment: { WORD: 'one', RCON: '********' },
  }
  for (const body of [{}, same]) await edit(body)
  expect((await refusal(edit({ unknown: 1 }))).fields).toEqual(['body.unknown'])
  expect(await stored()).toEqual(before)
  expect(await stage.audits(server.id)).toHaveLength(1)
  expect(await stage.commands(server.id)).toHaveLength(1)
})

test('refuses values outside the bounds', async () => {
  const wrong = {
    name: ['', 'a/b'],
    allocatedMemoryMb: [15, null],
    allocatedCpuCores: [0],
    primaryPort: [0],
    maxCrashCount: [101],
    restartPolicy: ['x'],
    environment: [{ 'a b': '1' }],
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      const answer = await raw(stage.panel, updateServer, `/api/servers/${server.id}`, { [field]: value })
      expect({ field, value, status: answer.status }).toEqual({ field, value, status: 400 })
    }
  }
  expect(await refusal(edit({ environment: { WORD: 'x'.repeat(21), NOPE: '' } }))).toMatchObject({
    fields: ['body.environment.NOPE', 'body.environment.WORD'],
  })
  expect((await stored()).generation).toBe(1)
})

test('merges variables, and takes the mask of a secret as unchanged', async () => {
  await edit({ environment: { WORD: 'two' } })
  await edit({ environment: { RCON: '********', HIDDEN: '********', WORD: 'three' } }, owner.client)
  expect(JSON.parse((await stored()).environment)).toEqual({
    WORD: 'three',
    RCON: 'hunter2-secret',
    FIXED: 'a',
    HIDDEN: 'out-of-sight',
  })
  await edit({ environment: { WORD: '********', RCON: 'another-hunter2' } })
  expect(JSON.parse((await stored()).environment)).toMatchObject({ WORD: '********', RCON: 'another-hunter2' })
  const written = JSON.stringify([
    await stage.audits(server.id),
    await stage.events(server.id),
    await stage.get(server.id),
  ])
  expect(written).not.toContain('hunter2')
  expect(written).toContain('"after":"three"')
})

test('keeps sizes, address, startup line and fixed variables to operators, but lets an owner send them back', async () => {
  const values = {
    allocatedMemoryMb: 65, allocatedCpuCores: 0.2, allocatedDiskMb: 65, allocatedSwapMb: 1, databaseAllocation: 1, primaryPort: 29_999,
    primaryIp: '127.0.0.9', allocationId: 'alc_any', startupCommand: 'sleep 3',
  } // biome-ignore format: columns
  for (const [field, value] of Object.entries(values)) {
    expect(await refusal(edit({ [field]: value, name: 'no' }, owner.client))).toMatchObject({
      code: 'PERMISSION_DENIED',
      meta: { missing: ['admin.write'] },
    })
  }
  expect(await refusal(edit({ environment: { FIXED: 'b' } }, owner.client))).toMatchObject({
    code: 'PERMISSION_DENIED',
  })
  expect((await stored()).generation).toBe(1)
  const back = {
    name: 'mine', allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64, allocatedSwapMb: 0, startupCommand: null,
    primaryPort: server.primaryPort, primaryIp: server.primaryIp, environment: { FIXED: 'a', WORD: 'mine' },
  } // biome-ignore format: columns
  expect(await edit(back, owner.client)).toMatchObject({ name: 'mine', generation: 2 })
  const stranger = await stage.person()
  expect((await refusal(edit({ name: 'x' }, stranger.client))).code).toBe('PERMISSION_DENIED')
  expect((await refusal(edit({ name: 'x' }, stage.admin, { ...server, id: 'srv_none' as never }))).code).toBe(
    'SERVER_NOT_FOUND',
  )
})

test('whoever has the node assigned sizes and moves its servers, and no others', async () => {
  const keeper = await stage.person()
  const body = { targetType: 'user' as const, targetId: keeper.id }
  await stage.admin.call(assignNode, { params: { nodeId: node.id as never }, body })
  const wanted = { allocatedMemoryMb: 65, databaseAllocation: 1, primaryPort: stage.port() }
  expect(await edit(wanted, keeper.client)).toMatchObject(wanted)
  expect((await refusal(edit({ startupCommand: 'sleep 3' }, keeper.client))).code).toBe('PERMISSION_DENIED')
  const elsewhere = await stage.create(template, await stage.node(), { ownerId: keeper.id })
  expect((await refusal(edit(wanted, keeper.client, elsewhere))).code).toBe('PERMISSION_DENIED')
})

test('takes a whole server back as it was shown, with a change to its address', async () => {
  const wanted = stage.port()
  expect(await edit({ ...server, primaryPort: wanted })).toMatchObject({ primaryPort: wanted })
  const moved = await stage.get(server.id)
  const other = await stage.create(template, node)
  const clash = { ...moved, allocationId: other.allocationId, primaryPort: stage.port() }
  expect((await refusal(edit(clash))).fields).toEqual(['body.allocationId'])
  await edit({ primaryIp: '127.0.0.8' })
  expect(await edit({ primaryIp: null })).toMatchObject({ primaryIp: '127.0.0.1', primaryPort: wanted })
})

test('a node that was made smaller refuses only what grows', async () => {
  const small = await stage.node({ maxMemoryMb: 128, maxCpuCores: 1 })
  const mine = await stage.create(template, small, { allocatedMemoryMb: 100 })
  await stage.admin.call(updateNode, { params: { nodeId: small.id as never }, body: { maxMemoryMb: 50 } })
  expect(await edit({ allocatedCpuCores: 0.5 }, stage.admin, mine)).toMatchObject({ allocatedCpuCores: 0.5 })
  const more = edit({ allocatedMemoryMb: 101 }, stage.admin, mine)
  expect(await refusal(more)).toMatchObject({ code: 'INSUFFICIENT_RESOURCES', meta: { available: { memoryMb: 50 } } })
})

test('shows players the public address of the node where the server has the address of the node', async () => {
  const far = await stage.node({ publicAddress: 'play.example.org', defaultIp: '10.1.2.3' })
  const plain = await stage.create(template, far)
  expect(plain).toMatchObject({ primaryIp: '10.1.2.3', connection: { host: 'play.example.org' } })
  const own = await stage.create(template, far, { primaryIp: '10.1.2.4' })
  expect(own).toMatchObject({ primaryIp: '10.1.2.4', connection: { host: '10.1.2.4' } })
})

async function holders() {
  const { data } = await stage.admin.page(listAllocations, {
    params: { nodeId: node.id as never },
    query: { limit: 100 } as never,
  })
  return new Map(data.map(({ port, server: holder }) => [port, holder?.id ?? null]))
}

test('moves to another port only at rest, and frees the old one', async () => {
  const [old, wanted] = [server.primaryPort, stage.port()]
  for (const power of ['running', 'starting', 'stopping', 'unknown']) {
    await stage.set(server.id, { power })
    expect(await refusal(edit({ primaryPort: wanted }))).toMatchObject({
      code: 'SERVER_MUST_BE_STOPPED',
      meta: { currentStatus: power },
    })
  }
  await stage.set(server.id, { power: 'offline', crashed: 1, nextRestartAt: '2030-01-01T00:00:00.000Z' })
  expect((await refusal(edit({ primaryPort: wanted }))).code).toBe('SERVER_MUST_BE_STOPPED')
  await stage.set(server.id, { crashed: 0, nextRestartAt: null })
  expect((await holders()).get(wanted)).toBeUndefined()
  expect(await edit({ primaryPort: wanted })).toMatchObject({ primaryPort: wanted, connection: { port: wanted } })
  const after = await holders()
  expect([after.get(old), after.get(wanted)]).toEqual([null, server.id])
})

test('a refused change leaves everything as it was', async () => {
  const other = await stage.create(template, node)
  const before = [await stored(), await holders()]
  expect(await refusal(edit({ name: 'no', primaryPort: other.primaryPort }))).toMatchObject({ code: 'PORT_IN_USE' })
  expect((await refusal(edit({ name: 'no', allocationId: other.allocationId }))).code).toBe('ALLOCATION_IN_USE')
  expect((await refusal(edit({ name: 'no', allocationId: 'alc_none' }))).code).toBe('ALLOCATION_NOT_FOUND')
  expect((await refusal(edit({ primaryPort: stage.port(), allocatedMemoryMb: 1_048_576 }))).code).toBe(
    'INSUFFICIENT_RESOURCES',
  )
  expect([await stored(), await holders()]).toEqual(before)
  await stage.set(server.id, { suspendedAt: '2026-01-01T00:00:00.000Z', suspensionReason: 'bill' })
  expect(await refusal(edit({ name: 'no' }))).toMatchObject({
    code: 'SERVER_SUSPENDED',
    meta: { suspensionReason: 'bill' },
  })
})

test('of concurrent edits none is lost', async () => {
  const fields = [
    { name: 'both' },
    { description: 'd' },
    { maxCrashCount: 7 },
    { allocatedMemoryMb: 70 },
    { environment: { WORD: 'w' } },
    { environment: { FIXED: 'f' } },
  ]
  await Promise.all(fields.map((body) => edit(body)))
  const now = await stage.get(server.id)
  expect(now).toMatchObject({ name: 'both', description: 'd', maxCrashCount: 7, allocatedMemoryMb: 70, generation: 6 })
  expect(now.environment).toMatchObject({ WORD: 'w', FIXED: 'f' })
  expect(await stage.audits(server.id, 'server.update')).toHaveLength(6)
  const one = stage.port()
  const rival = await stage.create(template, node)
  const both = await Promise.allSettled([edit({ primaryPort: one }), edit({ primaryPort: one }, stage.admin, rival)])
  expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('the node gets the newest specification, once, and a start after it runs with the new values', async () => {
  const own = await stage.node()
  const mine = await stage.create(template, own)
  await edit({ environment: { WORD: 'two' } }, stage.admin, mine)
  await edit({ environment: { WORD: 'three' } }, stage.admin, mine)
  // The order that the creation named ends too, for whoever waits for it.
  expect(await stage.ended(mine.commandId)).toMatchObject({ state: 'done', noop: 1 })
  const peer: AgentPeer = await stage.peer(own)
  const apply = await peer.until('the specification', () => peer.of('command')[0])
  expect(apply).toMatchObject({
    generation: 3,
    command: { op: 'apply', spec: { generation: 3, env: { WORD: 'three' } } },
  })
  peer.finish(apply)
  peer.event({
    type: 'server.state',
    report: report(mine.id, { power: 'offline', pid: null, uptimeMs: null, generation: 3 }),
    previous: 'offline',
    commandId: null,
  })
  await stage.ended(apply.id)
  const edits = edit({ environment: { WORD: 'four' } }, stage.admin, mine)
  await Promise.all([edits, stage.admin.call(startServer, { params: { serverId: mine.id }, body: {} })])
  const orders = await peer.until('both orders', () =>
    peer.of('command').length === 3 ? peer.of('command').slice(1) : undefined,
  )
  expect(orders.map(({ generation }) => generation)).toEqual([4, 5])
  expect(orders.at(-1)).toMatchObject({ command: { spec: { env: { WORD: 'four' } } } })
  expect(await until('the generation', async () => (await stage.get(mine.id)).generation)).toBe(5)
})
