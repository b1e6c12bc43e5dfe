import { afterAll, beforeAll, expect, test } from 'vitest'
import * as allocations from '../../../src/shared/api/allocations.ts'
import { assignNode } from '../../../src/shared/api/assignments.ts'
import { createIpPool } from '../../../src/shared/api/ip-pools.ts'
import { getNode, updateNode } from '../../../src/shared/api/nodes.ts'
import { adoptOrphan } from '../../../src/shared/api/orphans.ts'
import * as api from '../../../src/shared/api/server-allocations.ts'
import { deleteServer, listServers, type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { TemplatePort } from '../../../src/shared/api/template-fields.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { PanelError } from '../../../src/shared/kernel/errors.ts'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { refusal } from '../place-panel.ts'
import { type Differs, raw, Stage, type StageNode } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await Stage.open()
})
afterAll(() => stage.close())

type Port = Partial<TemplatePort> & { readonly name: string }
const withPorts = (ports: readonly Port[], more: Record<string, unknown> = {}) => stage.template({ ports, ...more })
const QUERY: Port = { name: 'query', role: 'query', protocol: 'udp', offset: 1, variable: 'QUERY_PORT' }
const RCON: Port = { name: 'rcon', role: 'rcon', protocol: 'tcp', variable: 'RCON_PORT' }

const ranged = (...ranges: readonly (readonly [from: number, to: number])[]) =>
  stage.node({ portRanges: ranges.map(([from, to]) => ({ from, to })) })
/** A server without a port of its own. */
const create = (
  template: { id: string },
  node: { id: string; locationId: string },
  differs: Differs = {},
  client?: Client,
) => stage.create(template, node, { primaryPort: undefined, ...differs }, client)
const numbers = ({ ports }: Server): Record<string, number> =>
  Object.fromEntries(ports.map(({ name, port }) => [name, port]))
const list = (server: Server, client = stage.admin) =>
  client.call(api.listServerAllocations, { params: { serverId: server.id } })
const add = (server: Server, body: object, client = stage.admin) =>
  client.call(api.addServerAllocation, { params: { serverId: server.id }, body: body as never })
const remove = (server: Server, port: number, query: { ip?: string } = {}, client = stage.admin) =>
  client.call(api.removeServerAllocation, { params: { serverId: server.id, containerPort: String(port) }, query })
const primary = (server: Server, containerPort: number, client = stage.admin) =>
  client.call(api.setPrimaryAllocation, { params: { serverId: server.id }, body: { containerPort } })
const edit = (server: Server, body: object, client = stage.admin) =>
  client.call(updateServer, { params: { serverId: server.id }, body: body as never })
const forget = (server: Server) =>
  stage.admin.call(deleteServer, { params: { serverId: server.id }, query: { force: 'true' } })
/** What servers have on a node, by address and port. */
async function held(node: { id: string }): Promise<Record<string, string>> {
  const query = { assigned: 'true', limit: 100 } as never
  const { data } = await stage.admin.page(allocations.listAllocations, { params: { nodeId: node.id as never }, query })
  return Object.fromEntries(data.map(({ ip, port, name }) => [`${ip}:${port}`, name ?? 'default']))
}
/** The specification that an order came with. */
function specIn({ command }: { readonly command: object }): ServerSpec {
  if (!('spec' in command)) throw new Error('the order came without a specification')
  return command.spec as ServerSpec // the peer has read it by its schema
}
/** A server at rest: what its creation ordered is done. */
async function atRest(server: Server): Promise<Server> {
  await stage.db.write((tx) =>
    tx.q.updateTable('command').set({ state: 'done', endedAt: tx.now }).where('serverId', '=', server.id).execute(),
  )
  return server
}

test('claims the primary port and all ports of the template, and shows them everywhere', async () => {
  const node = await ranged([30_000, 30_010])
  const template = await withPorts([RCON, QUERY], { listens: 'udp' })
  const server = await create(template, node)
  expect(numbers(server)).toEqual({ default: 30_000, query: 30_001, rcon: 30_002 })
  const host = '127.0.0.1'
  expect(server.ports).toEqual([
    { name: 'default', role: 'game', protocol: 'udp', ip: host, port: 30_000, host, isPrimary: true, variable: 'SERVER_PORT' },
    { name: 'query', role: 'query', protocol: 'udp', ip: host, port: 30_001, host, isPrimary: false, variable: 'QUERY_PORT' },
    { name: 'rcon', role: 'rcon', protocol: 'tcp', ip: host, port: 30_002, host, isPrimary: false, variable: 'RCON_PORT' },
  ]) // biome-ignore format: a table
  expect(server).toMatchObject({ primaryPort: 30_000, connection: { host, port: 30_000 } })
  expect((await stage.get(server.id)).ports).toEqual(server.ports)
  const [first, query] = await list(server)
  expect(first).toMatchObject({
    allocationId: server.allocationId,
    containerPort: 30_000,
    hostPort: 30_000,
    isPrimary: true,
  })
  expect(query).toMatchObject({ containerPort: 30_001, hostPort: 30_001, isPrimary: false, offset: 1, name: 'query' })
  expect(await held(node)).toEqual({
    [`${host}:30000`]: 'default',
    [`${host}:30001`]: 'query',
    [`${host}:30002`]: 'rcon',
  })
  const [audit] = await stage.audits(server.id, 'server.create')
  expect(audit?.details).toMatchObject({ port: 30_000, ports: { query: 30_001, rcon: 30_002 } })
  await forget(server)
  expect(await held(node)).toEqual({})
  expect(numbers(await create(template, node))).toEqual({ default: 30_000, query: 30_001, rcon: 30_002 })
})

test('hands the node all ports, and their numbers in the variables of the template', async () => {
  const node = await ranged([30_000, 30_010])
  const variables = [{ name: 'QUERY_PORT', default: '1' }]
  const server = await create(await withPorts([QUERY, { name: 'web' }], { variables, bindsAll: true }), node, {
    environment: { QUERY_PORT: '7' },
  })
  const peer = await stage.peer(node)
  const command = await peer.until('the order', () => peer.of('command').find(({ serverId }) => serverId === server.id))
  const spec = specIn(command)
  expect(spec.ports).toEqual([
    { ip: '127.0.0.1', port: 30_000, primary: true },
    { ip: '127.0.0.1', port: 30_001, primary: false, name: 'query', role: 'query', protocol: 'udp', variable: 'QUERY_PORT' },
    { ip: '127.0.0.1', port: 30_002, primary: false, name: 'web', role: 'other', protocol: 'both' },
  ]) // biome-ignore format: a table
  expect(spec).toMatchObject({ bindsAll: true, env: { QUERY_PORT: '30001' } })
})

test('of fifty servers that are made at once each gets ports of its own, and who gets none leaves nothing', async () => {
  const node = await ranged([40_000, 40_089])
  const template = await withPorts([QUERY, RCON])
  const tries = await Promise.allSettled(Array.from({ length: 50 }, () => create(template, node)))
  const made = tries.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  expect(made.length).toBe(30)
  const all = made.flatMap((server) => Object.values(numbers(server)))
  expect([all.length, new Set(all).size]).toEqual([90, 90])
  for (const server of made) expect(numbers(server)['query']).toBe(server.primaryPort + 1)
  const refused = tries.flatMap((one) => (one.status === 'rejected' ? [one.reason as PanelError] : []))
  expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['INSUFFICIENT_RESOURCES']))
  expect(refused[0]?.message).toMatch(/no place for 3 ports in 40000-40089.*--port-range/)
  expect(Object.keys(await held(node)).length).toBe(90)
  await forget(made[0] as Server)
  expect((await create(template, node)).primaryPort).toBe(made[0]?.primaryPort)
})

test('prefers the supported ports of the template, within the ranges of the node', async () => {
  const template = await withPorts([], { supportedPorts: [27_015, 27_016, 50_000] })
  const anywhere = await stage.node()
  const ports = async (node: StageNode, count: number) => {
    const found: number[] = []
    for (let i = 0; i < count; i++) found.push((await create(template, node)).primaryPort)
    return found
  }
  expect(await ports(anywhere, 4)).toEqual([27_015, 27_016, 50_000, 25_565])
  const node = await ranged([30_000, 30_001], [50_000, 50_000])
  expect(await ports(node, 3)).toEqual([50_000, 30_000, 30_001])
  expect(await refusal(create(template, node))).toMatchObject({
    code: 'INSUFFICIENT_RESOURCES',
    meta: { available: { ports: 0 }, required: { ports: 1 } },
  })
  const put = (portRanges: unknown) => raw(stage.panel, updateNode, `/api/nodes/${node.id}`, { portRanges })
  for (const wrong of [[{ from: 2, to: 1 }], [{ from: 0, to: 1 }], [{ from: 1, to: 65_536 }], [{ from: 1 }], 'all']) {
    expect([wrong, (await put(wrong)).status]).toEqual([wrong, 400])
  }
  expect((await put([{ from: 30_002, to: 30_002 }])).status).toBe(200)
  const now = await stage.admin.call(getNode, { params: { nodeId: node.id as never } })
  expect(now.portRanges).toEqual([{ from: 30_002, to: 30_002 }])
  expect(await ports(node, 1)).toEqual([30_002])
})

test('a port at a distance is had exactly there or not at all', async () => {
  const node = await ranged([60_000, 60_010])
  const template = await withPorts([QUERY])
  expect(await refusal(create(template, node, { primaryPort: 65_535 }))).toMatchObject({
    code: 'VALIDATION_ERROR',
    fields: ['body.primaryPort'],
  })
  expect(numbers(await create(template, node, { primaryPort: 65_534 }))).toEqual({ default: 65_534, query: 65_535 })
  const below = await withPorts([{ ...QUERY, offset: -10 }])
  expect((await refusal(create(below, node, { primaryPort: 10 }))).fields).toEqual(['body.primaryPort'])
  expect(numbers(await create(below, node, { primaryPort: 11 }))).toEqual({ default: 11, query: 1 })
  const edge = await ranged([65_534, 65_535])
  expect(numbers(await create(template, edge))).toEqual({ default: 65_534, query: 65_535 })
  expect((await refusal(create(template, edge))).code).toBe('INSUFFICIENT_RESOURCES')
  await create(await withPorts([]), node, { primaryPort: 60_001 })
  expect(await refusal(create(template, node, { primaryPort: 60_000 }))).toMatchObject({
    code: 'PORT_IN_USE',
    meta: { ip: '127.0.0.1', port: 60_001 },
  })
  expect(await held(node)).not.toHaveProperty('127.0.0.1:60000')
  // The first place where both fit is behind the port of the other server.
  expect(numbers(await create(template, node))).toEqual({ default: 60_002, query: 60_003 })
  const optional = await withPorts([{ ...QUERY, required: false }])
  expect(numbers(await create(optional, node, { primaryPort: 60_000 }))).toEqual({ default: 60_000 })
})

test('a game that binds all addresses shares its port with no other address', async () => {
  const node = await stage.node()
  const [all, one] = [await withPorts([], { bindsAll: true }), await withPorts([])]
  await create(all, node, { primaryPort: 2000 })
  await create(one, node, { primaryPort: 2001 })
  for (const [template, primaryPort] of [
    [all, 2000],
    [one, 2000],
    [all, 2001],
  ] as const) {
    expect(await refusal(create(template, node, { primaryPort, primaryIp: '127.0.0.2' }))).toMatchObject({
      code: 'PORT_IN_USE',
      meta: { ip: '127.0.0.2', port: primaryPort },
    })
  }
  await create(one, node, { primaryPort: 2001, primaryIp: '127.0.0.2' })
  await create(all, await stage.node(), { primaryPort: 2001 })
  // Containers bind the addresses of their own network.
  const boxed = await withPorts([], { bindsAll: true, runtimes: ['docker'], image: 'game' })
  await create(boxed, node, { primaryPort: 2000, primaryIp: '127.0.0.3', runtime: 'docker' }).then(
    () => expect.unreachable('the game at 127.0.0.1 has the port on all addresses'),
    (error: unknown) => expect(error).toMatchObject({ code: 'PORT_IN_USE' }),
  )
  await create(boxed, node, { primaryPort: 2002, primaryIp: '127.0.0.3', runtime: 'docker' })
  await create(one, node, { primaryPort: 2002, primaryIp: '127.0.0.2' })
})

test('ports at a distance move with the primary one, others stay, and all come along to another address', async () => {
  const node = await ranged([30_000, 30_020])
  const server = await atRest(await create(await withPorts([QUERY, RCON]), node))
  await add(server, { containerPort: 4000, name: 'web' })
  expect(numbers(await edit(server, { primaryPort: 30_010 }))).toEqual({
    default: 30_010,
    query: 30_011,
    rcon: 30_002,
    web: 4000,
  })
  // Its own former place is free for it.
  expect(numbers(await edit(server, { primaryPort: 30_011 }))).toMatchObject({ default: 30_011, query: 30_012 })
  const other = await create(await withPorts([]), node, { primaryPort: 30_001 })
  const before = await held(node)
  expect((await refusal(edit(server, { primaryPort: 30_000 }))).code).toBe('PORT_IN_USE')
  expect((await refusal(edit(server, { primaryPort: 65_535 }))).fields).toEqual(['body.primaryPort'])
  expect(await held(node)).toEqual(before)
  await forget(other)
  const moved = await edit(server, { primaryIp: '127.0.0.5' })
  expect(moved.ports.map(({ ip }) => ip)).toEqual(Array.from({ length: 4 }, () => '127.0.0.5'))
  expect(numbers(moved)).toEqual({ default: 30_011, query: 30_012, rcon: 30_002, web: 4000 })
  await stage.set(server.id, { power: 'running' })
  expect((await refusal(edit(server, { primaryPort: 30_000 }))).code).toBe('SERVER_MUST_BE_STOPPED')
})

test('all ports of a server are at its address of a network, which nobody else gets', async () => {
  const node = await ranged([30_000, 30_010])
  await stage.admin.call(createIpPool, {
    body: { nodeId: node.id as never, networkName: 'lan', cidr: '10.0.0.0/29' },
  })
  const template = await withPorts([QUERY, RCON])
  const [one, two] = [
    await create(template, node, { networkMode: 'lan' }),
    await create(template, node, { networkMode: 'lan' }),
  ]
  expect([one, two].map(numbers)).toEqual([numbers(one), numbers(one)])
  expect(new Set(one.ports.map(({ ip }) => ip))).toEqual(new Set(['10.0.0.1']))
  expect(two).toMatchObject({ primaryIp: '10.0.0.2', networkMode: 'lan' })
  expect((await refusal(add(one, { ip: '10.0.0.3', containerPort: 80 }))).fields).toEqual(['body.ip'])
  expect(await add(one, { containerPort: 80 })).toMatchObject({ ip: '10.0.0.1', name: 'port-80' })
  await forget(one)
  expect(Object.keys(await held(node)).filter((at) => at.startsWith('10.0.0.1:'))).toEqual([])
  expect(await create(template, node, { networkMode: 'lan' })).toMatchObject({ primaryIp: '10.0.0.1' })
})

test('a server is shown once whose addresses a network gives out by now', async () => {
  const node = await stage.node()
  const server = await create(await withPorts([]), node, { primaryIp: '10.2.0.1', primaryPort: 80 })
  await add(server, { ip: '10.2.0.2', containerPort: 80 })
  await stage.admin.call(createIpPool, {
    body: { nodeId: node.id as never, networkName: 'lan', cidr: '10.2.0.0/29' },
  })
  const { data, pagination } = await stage.admin.page(listServers, {
    query: { nodeId: node.id as never, include: 'settings' },
  })
  expect([data.length, pagination.total]).toEqual([1, 1])
  expect(data[0]).toMatchObject({ id: server.id, primaryIp: '10.2.0.1', networkMode: 'lan' })
  expect(data[0]?.ports.map(({ ip }) => ip)).toEqual(['10.2.0.1', '10.2.0.2'])
})

test('adds and removes ports, by number or by the template, and refuses what is there or needed', async () => {
  const node = await ranged([30_000, 30_010])
  const template = await withPorts([QUERY, { ...RCON, required: false }])
  const server = await atRest(await create(template, node))
  expect(
    await add(server, { containerPort: 4000, hostPort: 4000, name: 'web', role: 'other', protocol: 'tcp' }),
  ).toMatchObject({
    ...{ containerPort: 4000, hostPort: 4000, isPrimary: false, name: 'web', protocol: 'tcp', ip: '127.0.0.1' },
  })
  expect(await add(server, { ip: '127.0.0.9', containerPort: 4000 })).toMatchObject({
    ip: '127.0.0.9',
    name: 'port-4000',
  })
  expect(await add(server, {})).toMatchObject({ port: 30_003, name: 'extra' })
  for (const [body, code] of [
    [{ containerPort: 4000 }, 'ALLOCATION_EXISTS'],
    [{ containerPort: 30_000 }, 'ALLOCATION_EXISTS'],
    [{ containerPort: 4001, name: 'web' }, 'ALLOCATION_EXISTS'],
    [{ containerPort: 4001, hostPort: 4002 }, 'VALIDATION_ERROR'],
    [{ containerPort: 0 }, 'VALIDATION_ERROR'],
    [{ containerPort: 4001, name: 'default' }, 'VALIDATION_ERROR'],
    [{ containerPort: 4001, name: 'Web' }, 'VALIDATION_ERROR'],
    [{ containerPort: 4001, ip: '0.0.0.0' }, 'VALIDATION_ERROR'],
    [{ containerPort: (await create(template, node)).primaryPort }, 'PORT_IN_USE'],
  ] as const) {
    expect([body, (await refusal(add(server, body))).code]).toEqual([body, code])
  }
  expect((await refusal(remove(server, 30_000))).fields).toEqual(['params.containerPort'])
  expect((await refusal(remove(server, 30_001))).fields).toEqual(['params.containerPort'])
  expect((await refusal(remove(server, 9))).code).toBe('ALLOCATION_NOT_FOUND')
  expect((await refusal(remove(server, 4000))).fields).toEqual(['query.ip'])
  expect(await remove(server, 4000, { ip: '127.0.0.9' })).toBeNull()
  expect(await remove(server, 30_002)).toBeNull()
  expect(numbers(await stage.get(server.id))).toEqual({ default: 30_000, query: 30_001, extra: 30_003, web: 4000 })
  expect(await held(node)).not.toHaveProperty('127.0.0.1:30002')
  // By its name a port of the template is what the template says.
  expect(await add(server, { name: 'rcon' })).toMatchObject({ role: 'rcon', protocol: 'tcp', variable: 'RCON_PORT' })
  await stage.set(server.id, { power: 'running' })
  expect(await add(server, { containerPort: 4100 })).toMatchObject({ port: 4100 })
  expect((await refusal(remove(server, 4100))).code).toBe('SERVER_MUST_BE_STOPPED')
  expect((await refusal(primary(server, 4100))).code).toBe('SERVER_MUST_BE_STOPPED')
  const changes = (await stage.events(server.id)).flatMap(({ type, data }) =>
    type === 'server_updated' ? [JSON.parse(data).change] : [],
  )
  expect(changes).toEqual(expect.arrayContaining(['allocation_added', 'allocation_removed']))
  expect((await stage.audits(server.id, 'server.allocation_remove')).map(({ details }) => details)).toContainEqual(
    expect.objectContaining({ name: 'rcon', port: 30_002 }),
  )
})

test('a server has a bounded number of ports', async () => {
  const node = await stage.node()
  const server = await create(await withPorts([]), node)
  for (let count = 1; count < 50; count++) await add(server, { containerPort: 5000 + count })
  expect((await refusal(add(server, { containerPort: 6000 }))).code).toBe('INSUFFICIENT_RESOURCES')
})

test('another port becomes the primary one, and takes those at a distance along', async () => {
  const node = await ranged([30_000, 30_010])
  const server = await atRest(await create(await withPorts([QUERY, RCON]), node))
  await add(server, { containerPort: 4000, name: 'web', protocol: 'tcp' })
  expect((await refusal(primary(server, 30_001))).fields).toEqual(['body.containerPort'])
  expect((await refusal(primary(server, 9))).code).toBe('ALLOCATION_NOT_FOUND')
  expect(await primary(server, 4000)).toEqual({ primaryPort: 4000, primaryIp: '127.0.0.1' })
  expect(numbers(await stage.get(server.id))).toEqual({ default: 4000, query: 4001, rcon: 30_002, web: 30_000 })
  expect(await primary(server, 4000)).toEqual({ primaryPort: 4000, primaryIp: '127.0.0.1' })
  expect(await primary(server, 30_002)).toEqual({ primaryPort: 30_002, primaryIp: '127.0.0.1' })
  const after = await stage.get(server.id)
  expect(numbers(after)).toEqual({ default: 30_002, query: 30_003, rcon: 4000, web: 30_000 })
  expect(after.connection.port).toBe(30_002)
  expect(Object.keys(await held(node)).length).toBe(4)
  expect((await stage.audits(server.id, 'server.allocation_primary')).length).toBe(2)
  await add(server, { ip: '127.0.0.8', containerPort: 7000, name: 'far' })
  await primary(server, 7000)
  expect((await stage.get(server.id)).ports.map(({ name, ip, port }) => `${name} ${ip}:${port}`)).toEqual([
    'default 127.0.0.8:7000',
    'rcon 127.0.0.1:4000',
    'query 127.0.0.8:7001',
    'web 127.0.0.1:30000',
    'far 127.0.0.1:30002',
  ])
})

test('members take what the operator has put there, operators and assignees any port, and suspended servers change nothing', async () => {
  const node = await ranged([30_000, 30_010])
  const [owner, assignee, stranger] = [
    await stage.person(),
    await stage.person(['server.create']),
    await stage.person(),
  ]
  const server = await atRest(await create(await withPorts([QUERY]), node, { ownerId: owner.id }))
  expect((await list(server, owner.client)).map(({ port }) => port)).toEqual([30_000, 30_001])
  for (const call of [() => list(server, stranger.client), () => add(server, {}, stranger.client)]) {
    expect((await refusal(call())).code).toMatch(/^(SERVER_NOT_FOUND|PERMISSION_DENIED)$/)
  }
  expect((await refusal(add(server, { containerPort: 4000 }, owner.client))).code).toBe('PERMISSION_DENIED')
  expect((await refusal(add(server, {}, owner.client))).code).toBe('INSUFFICIENT_RESOURCES')
  await stage.admin.call(allocations.createAllocations, {
    params: { nodeId: node.id as never },
    body: { ip: '127.0.0.1', ports: '4000-4001' },
  })
  expect(await add(server, {}, owner.client)).toMatchObject({ port: 4000 })
  expect(await add(server, { containerPort: 4001, name: 'web' }, owner.client)).toMatchObject({ port: 4001 })
  // The port at a distance would lead to one that is not for the taking.
  expect((await refusal(primary(server, 4001, owner.client))).code).toBe('PERMISSION_DENIED')
  expect(numbers(await stage.get(server.id))).toMatchObject({ default: 30_000, query: 30_001, web: 4001 })
  await remove(server, 4001, {}, owner.client)
  await stage.admin.call(assignNode, {
    params: { nodeId: node.id as never },
    body: { targetType: 'user', targetId: assignee.id } as never,
  })
  expect(
    await add(server, { containerPort: 4002 }, assignee.client).catch((error: PanelError) => error.code),
  ).toMatchObject({ port: 4002 })
  await stage.set(server.id, { suspendedAt: '2026-01-01T00:00:00.000Z', suspensionReason: 'bill' })
  expect((await list(server, owner.client)).length).toBe(4)
  const changes = [() => add(server, {}), () => remove(server, 4000), () => primary(server, 4000)]
  for (const call of changes) {
    expect((await refusal(call())).code).toBe('SERVER_SUSPENDED')
  }
  await stage.set(server.id, { suspendedAt: null, deletingAt: '2026-01-01T00:00:00.000Z' })
  for (const call of changes) {
    expect((await refusal(call())).code).toBe('SERVER_INVALID_STATE')
  }
})

test('a port that the node finds in use is not chosen, and a node that does not answer holds nobody up', async () => {
  const node = await ranged([30_000, 30_005])
  const template = await withPorts([QUERY])
  const peer = await stage.peer(node)
  peer.silent.add('ports.check')
  const making = create(template, node)
  const { id, request } = await peer.until('the look', () =>
    peer.of('request').find((one) => one.request.op === 'ports.check'),
  )
  const asked = request.op === 'ports.check' ? request.ports.map(({ port }) => port) : []
  expect(asked.toSorted((a, b) => a - b)).toEqual([30_000, 30_001, 30_002, 30_003, 30_004, 30_005, 30_006])
  const taken = [30_000, 30_002].map((port) => ({
    ip: '127.0.0.1',
    port,
    code: 'PORT_IN_USE' as const,
    message: 'in use',
  }))
  peer.send({ type: 'reply', id, error: null, result: { taken } })
  expect(numbers(await making)).toEqual({ default: 30_003, query: 30_004 })
  const other = await ranged([30_000, 30_005])
  const silent = await stage.peer(other)
  silent.silent.add('ports.check')
  expect(numbers(await create(template, other))).toEqual({ default: 30_000, query: 30_001 })
})

test('a server that its node has is taken back with its ports, and what cannot be had is said', async () => {
  const node = await stage.node()
  const template = await withPorts([QUERY, RCON])
  const lost = await create(template, node, { primaryPort: 3000 })
  await add(lost, { containerPort: 3100, name: 'web' })
  const peer = await stage.peer(node)
  const sent = await peer.until('the specification', () =>
    peer
      .of('command')
      .findLast(
        ({ serverId, command }) => serverId === lost.id && 'spec' in command && command.spec.ports.length === 4,
      ),
  )
  const spec = specIn(sent)
  await forget(lost)
  await create(await withPorts([]), node, { primaryPort: 3001 })
  peer.holdings.set(lost.id, spec)
  const adopted = await stage.admin.call(adoptOrphan, {
    params: { nodeId: node.id as never, serverId: lost.id },
    body: {},
  })
  expect(adopted.conflicts.join('\n')).toMatch(/port query, 127\.0\.0\.1:3001, cannot be had/)
  expect(adopted.conflicts.join('\n')).toMatch(/no port query, which the template asks for/)
  const { default: game, web, rcon } = numbers(await stage.get(lost.id))
  expect([game, web, rcon]).toEqual([3000, 3100, spec.ports.find(({ name }) => name === 'rcon')?.port])
})

test('a template is refused whose ports could not be told apart, or be had', async () => {
  const problems = async (ports: readonly object[], more: object = {}) =>
    (await refusal(withPorts(ports as never, more as never))).fields.map((field) => field.replace('body.', ''))
  expect(await problems([QUERY, { ...QUERY, offset: 2, variable: null }])).toEqual(['ports.1.name'])
  expect(await problems([QUERY, { ...QUERY, name: 'b' }])).toEqual(['ports.1.offset', 'ports.1.variable'])
  expect(await problems([{ ...QUERY, offset: 0 }])).toEqual(['ports.0.offset'])
  expect(await problems([{ ...QUERY, offset: 70_000 }])).toEqual(['ports.0.offset'])
  expect(await problems([QUERY], { supportedPorts: [65_535] })).toEqual(['ports.0.offset'])
  expect(await problems([{ ...QUERY, variable: 'SERVER_PORT' }])).toEqual(['ports.0.variable'])
  expect(await problems([{ ...QUERY, variable: 'RANDOM' }])).toEqual(['ports.0.variable'])
  for (const [line, fields] of [
    ['run {{server.allocations.query.port}} {{server.allocations.default.port}}', []],
    ['run {{server.allocations.rcon.port}}', ['startup']],
    ['run {{server.allocations.query.ip}}', ['startup']],
    ['run {{server.allocations.web.port}}', ['startup']],
  ] as const) {
    const ports = [QUERY, { name: 'rcon' }]
    if (fields.length === 0) await withPorts(ports, { startup: line })
    else expect([line, await problems(ports, { startup: line })]).toEqual([line, fields])
  }
  expect(await problems([{ name: 'default' }])).toEqual(['ports.0.name'])
  expect(await problems([{ name: 'x', role: 'chat' }])).toEqual(['ports.0.role'])
  expect(await problems(Array.from({ length: 21 }, (_, i) => ({ name: `p${i}` })))).toEqual(['ports'])
})
