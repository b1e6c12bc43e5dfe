import { afterAll, beforeAll, expect, test } from 'vitest'
import { createAllocations, listAllocations } from '../../../src/shared/api/allocations.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { assignNode, unassignNode } from '../../../src/shared/api/assignments.ts'
import { createLocation } from '../../../src/shared/api/locations.ts'
import { getNode, updateNode } from '../../../src/shared/api/nodes.ts'
import { createServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { refusal } from '../place-panel.ts'
import { type Differs, raw, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template()
})
afterAll(() => stage.close())

const ANY_CREATES = ['server.create', 'admin.write']
const refusedBy = (differs: Differs, of: { id: string } = template) => refusal(stage.create(of, node, differs))
const post = (body: unknown) => raw(stage.panel, createServer, '/api/servers', body)

test('refuses what is outside the bounds of each field, and takes what is on them', async () => {
  const wrong: Record<string, unknown[]> = {
    name: ['', ' ', 'x'.repeat(101), 'a/b', '<b>', 'a\\b', 'a\nb', 'a\u202eb', 7, null],
    description: ['x'.repeat(501)],
    allocatedMemoryMb: [15, 1_048_577, 64.5, '64', null],
    allocatedCpuCores: [0.09, 0, -1, 1025, '1'],
    allocatedDiskMb: [15, 1_073_741_825, 16.5],
    allocatedSwapMb: [-1, 1_048_577],
    primaryPort: [0, 65_536, 80.5, '80'],
    primaryIp: ['localhost', '1.2.3', ''],
    environment: [{ 'a-b': '1' }, { A: 'x'.repeat(4097) }, { A: {} }, { A: null }, []],
    startupCommand: ['', 'x'.repeat(4097)],
    restartPolicy: ['sometimes'],
    maxCrashCount: [-1, 101, 1.5],
    runtime: ['podman'],
    start: ['yes'],
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      const answer = await post({ ...(stage.body(template, node) as object), [field]: value })
      expect({ field, value, status: answer.status }).toEqual({ field, value, status: 400 })
      expect(answer.fields.every((name) => name.startsWith(`body.${field}`))).toBe(true)
    }
  }
  const right: Differs[] = [
    {
      name: 'x'.repeat(100),
      description: 'x'.repeat(500),
      allocatedMemoryMb: 16,
      allocatedCpuCores: 0.1,
      allocatedDiskMb: 16,
    },
    {
      name: 'Größe 1_a.b-c',
      allocationId: null as never,
      allocatedSwapMb: 0,
      maxCrashCount: 0,
      primaryPort: 1,
      restartPolicy: 'never',
    },
    {
      name: "日本語 ไทย (Bob's #1) [EU] 🔥",
      maxCrashCount: 100,
      primaryPort: 65_535,
      restartPolicy: 'always',
      description: null,
      primaryIp: null,
    },
  ]
  for (const differs of right) expect(await stage.create(template, node, differs)).toMatchObject(withoutNull(differs))
  for (const field of [
    'name',
    'templateId',
    'nodeId',
    'locationId',
    'allocatedMemoryMb',
    'allocatedCpuCores',
    'allocatedDiskMb',
  ]) {
    expect((await post({ ...(stage.body(template, node) as object), [field]: undefined })).fields).toEqual([
      `body.${field}`,
    ])
  }
})

function withoutNull(differs: Differs): Differs {
  return Object.fromEntries(Object.entries(differs).filter(([, value]) => value !== null))
}

test('takes a port with the default address, with an address, or an allocation, and only one of them', async () => {
  expect(await stage.create(template, node, { primaryPort: 30_001 })).toMatchObject({
    primaryPort: 30_001,
    primaryIp: '127.0.0.1',
  })
  expect(await stage.create(template, node, { primaryPort: 30_001, primaryIp: '127.0.0.2' })).toMatchObject({
    primaryIp: '127.0.0.2',
  })
  await stage.admin.call(createAllocations, {
    params: { nodeId: node.id as never },
    body: { ip: '127.0.0.1', ports: '30010' } as never,
  })
  const page = await stage.admin.page(listAllocations, {
    params: { nodeId: node.id as never },
    query: { limit: 100 } as never,
  })
  const free = page.data.find(({ port }) => port === 30_010)
  const made = await stage.create(template, node, { allocationId: free?.id as string })
  expect(made).toMatchObject({ allocationId: free?.id, primaryPort: 30_010, connection: { port: 30_010 } })
  expect((await refusedBy({ allocationId: free?.id as string })).code).toBe('ALLOCATION_IN_USE')
  expect((await refusedBy({ allocationId: 'alc_nowhere' })).code).toBe('ALLOCATION_NOT_FOUND')
  expect(await refusedBy({ allocationId: 'alc_x', primaryPort: 1 })).toMatchObject({ fields: ['body.allocationId'] })
  expect(await refusedBy({ allocationId: 'alc_x', primaryIp: '127.0.0.1' })).toMatchObject({
    fields: ['body.primaryIp'],
  })
  // Without any it is given one.
  expect(await stage.create(template, node, { primaryPort: undefined })).toMatchObject({ primaryPort: 25_565 })
  expect(await refusedBy({ primaryIp: '0.0.0.0' })).toMatchObject({
    code: 'VALIDATION_ERROR',
    fields: ['body.primaryIp'],
  })
})

test('names what it does not know, and a location that is not the node’s', async () => {
  expect((await refusedBy({ templateId: 'tpl_x' })).code).toBe('TEMPLATE_NOT_FOUND')
  expect((await refusedBy({ nodeId: 'node_x' })).code).toBe('NODE_NOT_FOUND')
  expect((await refusedBy({ locationId: 'loc_x' })).code).toBe('LOCATION_NOT_FOUND')
  expect((await refusedBy({ ownerId: 'usr_x' })).code).toBe('USER_NOT_FOUND')
  const elsewhere = await stage.admin.call(createLocation, { body: { name: 'Elsewhere' } })
  expect(await refusedBy({ locationId: elsewhere.id })).toMatchObject({
    code: 'VALIDATION_ERROR',
    fields: ['body.locationId'],
  })
})

test('of fifty creations with one port one wins and nothing of the others stays', async () => {
  const counts = async () => {
    const [servers, commands, audits, events, allocations] = await Promise.all(
      (['server', 'command', 'auditLog', 'event', 'allocation'] as const).map((table) =>
        stage.db.read
          .selectFrom(table)
          .select((eb) => eb.fn.countAll<number>().as('n'))
          .executeTakeFirstOrThrow(),
      ),
    )
    return [servers, commands, audits, events, allocations].map((row) => Number(row?.n))
  }
  const before = await counts()
  const all = await Promise.allSettled(
    Array.from({ length: 50 }, () => stage.create(template, node, { primaryPort: 31_000 })),
  )
  expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const codes = await Promise.all(
    all.flatMap((one) => (one.status === 'rejected' ? [refusal(Promise.reject(one.reason))] : [])),
  )
  expect(new Set(codes.map(({ code }) => code))).toEqual(new Set(['PORT_IN_USE']))
  // One server, its command, its audit row, the two events of both, its allocation.
  expect(await counts()).toEqual(before.map((n, i) => n + ([1, 1, 1, 2, 1][i] ?? 0)))
})

const variables = [
  { name: 'MAP', default: 'island', rules: ['in:island,desert'] },
  { name: 'SLOTS', default: '8', required: true, rules: ['integer', 'between:1,64'] },
  { name: 'LICENCE', required: true },
  { name: 'RCON', secret: true, default: 'initial-secret' },
  { name: 'FIXED', default: 'a', userEditable: false },
  { name: 'HIDDEN', default: 'out-of-sight', userViewable: false },
]

test('fills variables from the template and holds them against its rules', async () => {
  const game = await stage.template({ variables })
  const environment = { LICENCE: 'abc', SLOTS: '64' }
  const made = await stage.create(game, node, { environment })
  expect(made.environment).toMatchObject({ MAP: 'island', SLOTS: '64', LICENCE: 'abc', FIXED: 'a' })
  const problems = async (wrong: Record<string, string>) => (await refusedBy({ environment: wrong }, game)).fields
  expect(await problems({})).toEqual(['body.environment.LICENCE'])
  expect(await problems({ LICENCE: '' })).toEqual(['body.environment.LICENCE'])
  expect(await problems({ LICENCE: 'x', SLOTS: '65', MAP: 'sea' })).toEqual([
    'body.environment.MAP',
    'body.environment.SLOTS',
  ])
  expect(await problems({ LICENCE: 'x', NOTHING: '1' })).toEqual(['body.environment.NOTHING'])
})

test('masks secrets in answers, audit and events, and keeps hidden variables from those who own the server', async () => {
  const game = await stage.template({ variables })
  const owner = await stage.person()
  const environment = { LICENCE: 'abc', RCON: 'hunter2-secret' }
  const made = await stage.create(game, node, { environment, ownerId: owner.id })
  expect(made.environment).toMatchObject({ RCON: '********', HIDDEN: 'out-of-sight' })
  const seen = await stage.get(made.id, owner.client)
  expect(seen.environment).toMatchObject({ RCON: '********', HIDDEN: '********', LICENCE: 'abc' })
  expect(JSON.stringify([made, seen])).not.toMatch(/hunter2-secret|initial-secret/)
  expect(JSON.stringify(seen)).not.toContain('out-of-sight')
  expect(JSON.stringify(await stage.audits(made.id))).not.toContain('hunter2')
  expect(JSON.stringify(await stage.events(made.id))).not.toContain('hunter2')
  expect(stage.panel.log()).not.toContain('hunter2')
})

test('takes numbers and booleans as values of variables, as YAML and JSON write them', async () => {
  const game = await stage.template({ variables: [{ name: 'SLOTS' }, { name: 'PVP' }] })
  const made = await stage.create(game, node, { environment: { SLOTS: 20, PVP: true } as never })
  expect(made.environment).toEqual({ SLOTS: '20', PVP: 'true' })
})

test('takes the mask of a secret as not given', async () => {
  const game = await stage.template({ variables })
  const made = await stage.create(game, node, { environment: { LICENCE: 'abc', RCON: '********' } })
  const row = await stage.db.read
    .selectFrom('server')
    .select('environment')
    .where('id', '=', made.id)
    .executeTakeFirstOrThrow()
  expect(JSON.parse(row.environment)).toMatchObject({ RCON: 'initial-secret' })
})

test('keeps fixed variables, startup lines and foreign owners to operators', async () => {
  const game = await stage.template({ variables })
  const { client, id } = await stage.person(['server.create'])
  const mine = (differs: Differs) => stage.create(game, node, { environment: { LICENCE: 'x' }, ...differs }, client)
  expect(await mine({})).toMatchObject({ ownerId: id, status: 'stopped' })
  expect(await mine({ environment: { LICENCE: 'x', FIXED: 'a' } })).toMatchObject({ ownerId: id })
  const missing = { code: 'PERMISSION_DENIED', meta: { missing: ['admin.write'] } }
  expect(await refusal(mine({ environment: { LICENCE: 'x', FIXED: 'b' } }))).toMatchObject(missing)
  expect(await refusal(mine({ startupCommand: 'sleep 1' }))).toMatchObject(missing)
  expect(await refusal(mine({ ownerId: 'usr_other' }))).toMatchObject(missing)
  const nobody = await stage.person()
  expect((await refusal(stage.create(game, node, {}, nobody.client))).code).toBe('PERMISSION_DENIED')
})

test('gives a server an address that its node has, as soon as the node has said which', async () => {
  const machine = ['127.0.0.1', '::1', '2001:db8::5', '192.0.2.5', '10.0.0.5']
  const expected: [named: Record<string, string>, ip: string, host: string][] = [
    [{ publicAddress: 'play.example.org' }, '192.0.2.5', 'play.example.org'],
    [{ publicAddress: '203.0.113.9' }, '192.0.2.5', '203.0.113.9'],
    [{ publicAddress: '10.0.0.5' }, '10.0.0.5', '10.0.0.5'],
    [{ publicAddress: 'play.example.org', defaultIp: '10.0.0.77' }, '10.0.0.77', 'play.example.org'],
    [{ publicAddress: '127.0.0.1' }, '127.0.0.1', '127.0.0.1'],
  ]
  for (const [named, ip, host] of expected) {
    const place = await stage.node(named)
    await stage.peer(place, { addresses: machine })
    const made = await stage.create(template, place)
    expect(made).toMatchObject({ primaryIp: ip, connection: { host } })
  }
})

test('leaves the address of a node alone once it was chosen', async () => {
  const place = await stage.node({ publicAddress: 'play.example.org' })
  const params = { nodeId: place.id as never }
  const first = await stage.peer(place, { addresses: ['127.0.0.1', '192.0.2.5'] })
  expect(await stage.admin.call(getNode, { params })).toMatchObject({ defaultIp: '192.0.2.5' })
  await stage.admin.call(updateNode, { params, body: { defaultIp: '127.0.0.1' } })
  first.socket.terminate()
  await stage.peer(place, { addresses: ['127.0.0.1', '192.0.2.5'] })
  expect(await stage.admin.call(getNode, { params })).toMatchObject({ defaultIp: '127.0.0.1' })
})

test('takes servers on a node from those whom it is assigned to, while it is', async () => {
  const mine = await stage.node()
  const { client, id } = await stage.person()
  const body = { targetType: 'user' as const, targetId: id }
  const create = (place: StageNode, differs: Differs = {}, by = client) => stage.create(template, place, differs, by)
  expect(await refusal(create(mine))).toMatchObject({ code: 'PERMISSION_DENIED' })
  const assigned = await stage.admin.call(assignNode, { params: { nodeId: mine.id as never }, body })
  expect(await create(mine)).toMatchObject({ ownerId: id, nodeId: mine.id })
  expect(await refusal(create(node))).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ANY_CREATES } })
  expect(await refusal(create({ ...mine, id: 'node_none' }))).toMatchObject({ code: 'PERMISSION_DENIED' })
  expect(await refusal(create(mine, { startupCommand: 'sleep 1' }))).toMatchObject({
    meta: { missing: ['admin.write'] },
  })
  expect(await refusal(create(mine, { nodeId: 7 as never }))).toMatchObject({ code: 'VALIDATION_ERROR' })
  const params = { nodeId: mine.id as never, assignmentId: assigned.id }
  await stage.admin.call(unassignNode, { params })
  expect(await refusal(create(mine))).toMatchObject({ code: 'PERMISSION_DENIED' })
})

test('takes no server from a key that may not create, although a node is assigned to its owner', async () => {
  const place = await stage.node()
  const { client, id } = await stage.person(['apikey.manage', 'node.read'])
  const body = { targetType: 'user' as const, targetId: id }
  await stage.admin.call(assignNode, { params: { nodeId: place.id as never }, body })
  const reader = await stage.key(client, ['node.read'])
  expect(await refusal(stage.create(template, place, {}, reader))).toMatchObject({ code: 'PERMISSION_DENIED' })
  const { key } = await client.call(createApiKey, { body: { name: 'all', allPermissions: true } })
  expect(await stage.create(template, place, {}, stage.panel.as(key))).toMatchObject({ ownerId: id })
})

test('gives no more than the node has', async () => {
  const small = await stage.node({ maxMemoryMb: 128, maxCpuCores: 1 })
  await stage.create(template, small, { allocatedMemoryMb: 100 })
  const refused = await refusal(stage.create(template, small, { allocatedMemoryMb: 29 }))
  expect(refused).toMatchObject({ code: 'INSUFFICIENT_RESOURCES', meta: { available: { memoryMb: 28 } } })
  expect((await refusal(stage.create(template, small, { allocatedMemoryMb: 28, allocatedCpuCores: 1 }))).code).toBe(
    'INSUFFICIENT_RESOURCES',
  )
  const both = await Promise.allSettled([1, 2].map(() => stage.create(template, small, { allocatedMemoryMb: 28 })))
  expect(both.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('refuses a runtime that the node does not offer, with the reason', async () => {
  const docker = await stage.template({ runtimes: ['docker'], image: 'game:1' })
  const both = await stage.template({ runtimes: ['docker', 'process'], image: 'game:1' })
  const own = await stage.node()
  expect(await stage.create(docker, own)).toMatchObject({ runtime: 'docker' })
  const peer = await stage.peer(own)
  expect((await refusal(stage.create(docker, own))).code).toBe('CONFLICT')
  await expect(stage.create(docker, own)).rejects.toThrow('docker: not offered')
  expect(await stage.create(both, own)).toMatchObject({ runtime: 'process' })
  expect(await refusal(stage.create(template, own, { runtime: 'docker' }))).toMatchObject({
    code: 'VALIDATION_ERROR',
    fields: ['body.runtime'],
  })
  await peer.leave()
})

test('makes containers from the image of the template, where the node offers them', async () => {
  const docker = await stage.template({ runtimes: ['docker'], image: 'game:1', installScript: 'true' })
  const apart = await stage.template({
    runtimes: ['docker'],
    image: 'game:1',
    installScript: 'true',
    installImage: 'tools:2',
  })
  const either = await stage.template({ runtimes: ['process', 'docker'], image: 'game:1' })
  const own = await stage.node()
  const peer = await stage.peer(own, {
    runtimes: [
      { name: 'process', ok: true, reason: null, isolation: 'user', mounts: 'private', limits: 'cgroup-v2' },
      { name: 'docker', ok: true, reason: null, isolation: 'virtual machine', limits: 'cgroup-v2' },
    ],
  })
  const { runtimes } = await stage.admin.call(getNode, { params: { nodeId: own.id } })
  expect(runtimes).toMatchObject([
    { name: 'process', isolation: 'user', mounts: 'private', limits: 'cgroup-v2' },
    { name: 'docker', isolation: 'unknown', limits: 'cgroup-v2' },
  ])
  const specs: unknown[] = []
  for (const of of [docker, apart, either]) {
    const made = await stage.create(of, own)
    const order = await peer.until('an order', () => peer.of('command').find(({ serverId }) => serverId === made.id))
    if (!('spec' in order.command)) throw new Error('it has no specification')
    const { runtime, image, install } = order.command.spec
    specs.push([runtime, image, install?.image])
    peer.finish(order)
  }
  expect(specs).toEqual([
    ['docker', 'game:1', 'game:1'],
    ['docker', 'game:1', 'tools:2'],
    ['process', undefined, undefined],
  ])
  await peer.leave()
})

test('counts a server without a script as installed, and says which order makes it ready', async () => {
  const scripted = await stage.template({ installScript: 'true' })
  const cases = [
    { of: template, start: false, installed: true, op: 'apply', desired: 'stopped' },
    { of: template, start: true, installed: true, op: 'start', desired: 'running' },
    { of: scripted, start: false, installed: false, op: 'install', desired: 'stopped' },
    { of: scripted, start: true, installed: false, op: 'install', desired: 'running' },
  ] as const
  for (const { of, start, installed, op, desired } of cases) {
    const made = await stage.create(of, node, { start })
    expect(made).toMatchObject({ installed, desired, status: 'stopped', generation: 1 })
    expect(await stage.commands(made.id)).toMatchObject([{ id: made.commandId, op, state: 'queued', generation: 1 }])
  }
})

test('installs on a node that was away when it is back', async () => {
  const scripted = await stage.template({ installScript: 'echo hello' })
  const own = await stage.node()
  const made = await stage.create(scripted, own, { start: true })
  expect(made).toMatchObject({ status: 'stopped', node: { isOnline: false } })
  const peer = await stage.peer(own)
  const order = await peer.until('the installation', () => peer.of('command')[0])
  expect(order).toMatchObject({
    id: made.commandId,
    serverId: made.id,
    command: { op: 'install', wipe: false, thenStart: true },
  })
  peer.finish(order)
  expect(await stage.ended(order.id)).toMatchObject({ state: 'done' })
  await peer.leave()
})

test('writes one audit row that says who, what and where', async () => {
  const made = await stage.create(template, node)
  const rows = await stage.audits(made.id)
  expect(rows).toHaveLength(1)
  expect(rows[0]).toMatchObject({
    action: 'server.create',
    resource: 'server',
    details: { name: made.name, nodeId: node.id, port: made.primaryPort },
  })
})
