import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { createAllocations, listAllocations, updateAllocation } from '../../src/shared/api/allocations.ts'
import * as api from '../../src/shared/api/ip-pools.ts'
import { createNode, deleteNode } from '../../src/shared/api/nodes.ts'
import { deleteServer, updateServer } from '../../src/shared/api/servers.ts'
import type { CallInput } from '../../src/shared/kernel/contract.ts'
import { addServer, type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
let at: Awaited<ReturnType<typeof place>>
let nodes = 0
beforeAll(async () => {
  panel = await startPlacePanel()
  at = await place(panel)
})
afterAll(() => panel.close())
/** Each test has a node of its own. */
beforeEach(async () => {
  nodes += 1
  const body = { name: `n${nodes}`, locationId: at.locationId, maxMemoryMb: 100_000, maxCpuCores: 100 }
  at = { ...at, nodeId: (await panel.admin.call(createNode, { body })).id }
})

type Pool = Partial<CallInput<typeof api.createIpPool>['body']>
type Edit = NonNullable<CallInput<typeof api.updateIpPool>['body']>

const create = (pool: Pool = {}) =>
  panel.admin.call(api.createIpPool, { body: { nodeId: at.nodeId, networkName: 'lan', cidr: '10.0.0.0/29', ...pool } })
const edit = (pool: { id: string }, body: Edit) =>
  panel.admin.call(api.updateIpPool, { params: { poolId: pool.id }, body })
const get = ({ id }: { id: string }) => panel.admin.call(api.getIpPool, { params: { poolId: id } })
const remove = ({ id }: { id: string }) => panel.admin.call(api.deleteIpPool, { params: { poolId: id } })
const free = (query: { networkName?: string; limit?: number } = {}) =>
  panel.admin.call(api.listFreeAddresses, { params: { nodeId: at.nodeId }, query })
/** The tests share a panel, and a name is given once. */
const named = (name: string): string => `${name}-${nodes}`
const server = (name: string, differs: Parameters<typeof addServer>[2] = {}) =>
  addServer(panel, at, { name: named(name), allocatedMemoryMb: 16, ...differs })
const inPool = (name: string, primaryIp?: string) =>
  server(name, { networkMode: 'lan', ...(primaryIp === undefined ? {} : { primaryIp }) })
const names = async (query: object) =>
  (await panel.admin.page(api.listIpPools, { query })).data.map(({ networkName }) => networkName)
const forget = (one: { id: string }) =>
  panel.admin.call(deleteServer, { params: { serverId: one.id }, query: { force: 'true' } })

test('gives the addresses of a network out, lowest first, and takes them back when their servers go', async () => {
  const pool = await create({ cidr: '10.0.0.5/29', gateway: '10.0.0.1', reserved: ['10.0.0.3', '10.0.0.7'] })
  expect(pool).toMatchObject({ networkName: 'lan', cidr: '10.0.0.0/29', gateway: '10.0.0.1' })
  expect(pool).toMatchObject({ rangeStart: '10.0.0.1', rangeEnd: '10.0.0.6', startIp: null, endIp: null })
  // The broadcast address is reserved by the operator and given out by nobody: it does not count twice.
  expect(pool).toMatchObject({ total: 6, reservedCount: 2, usedCount: 0, availableCount: 4, allocations: [] })
  const two = await inPool('two')
  expect(two).toMatchObject({ primaryIp: '10.0.0.2', primaryPort: 25_565, networkMode: 'lan' })
  expect(await inPool('four')).toMatchObject({ primaryIp: '10.0.0.4', connection: { host: '10.0.0.4' } })
  expect(await inPool('six', '10.0.0.6')).toMatchObject({ primaryIp: '10.0.0.6' })
  expect(await free()).toEqual(['10.0.0.5'])
  const used = await get(pool)
  expect(used).toMatchObject({ usedCount: 3, availableCount: 1 })
  expect(used.allocations).toMatchObject([
    { ip: '10.0.0.2', serverId: two.id, serverName: named('two'), serverStatus: 'stopped' },
    { ip: '10.0.0.4', serverName: named('four') },
    { ip: '10.0.0.6', serverName: named('six') },
  ])
  const page = await panel.admin.page(api.listPoolAddresses, {
    params: { poolId: pool.id },
    query: { limit: 2, page: 2 },
  })
  expect([page.data.map(({ ip }) => ip), page.pagination.total]).toEqual([['10.0.0.6'], 3])
  await forget(two)
  expect(await get(pool)).toMatchObject({ usedCount: 2, availableCount: 2 })
  expect(await inPool('heir')).toMatchObject({ primaryIp: '10.0.0.2' })
  expect(await inPool('last')).toMatchObject({ primaryIp: '10.0.0.5' })
  expect(await refusal(inPool('none'))).toMatchObject({ code: 'INSUFFICIENT_RESOURCES' })
})

test('of fifty servers that are made at once each gets an address of its own', async () => {
  await create({ cidr: '10.0.0.0/26', gateway: '10.0.0.10', reserved: ['10.0.0.20', '10.0.0.30'] })
  const made = await Promise.all(Array.from({ length: 50 }, (_, i) => inPool(`s${i}`)))
  const ips = new Set(made.map(({ primaryIp }) => primaryIp))
  expect(ips.size).toBe(50)
  for (const ip of ['10.0.0.0', '10.0.0.10', '10.0.0.20', '10.0.0.30', '10.0.0.63']) expect(ips).not.toContain(ip)
  const rest = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => inPool(`t${i}`)))
  expect(rest.filter(({ status }) => status === 'fulfilled')).toHaveLength(9)
  expect(rest.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []))).toEqual(
    Array(11).fill('INSUFFICIENT_RESOURCES'),
  )
})

test('of fifty servers that want one address one gets it', async () => {
  await create()
  const tries = await Promise.allSettled(
    Array.from({ length: 50 }, (_, i) => server(`s${i}`, { primaryPort: 7000 + i, primaryIp: '10.0.0.3' })),
  )
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  expect(new Set(tries.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : [])))).toEqual(
    new Set(['ALLOCATION_IN_USE']),
  )
})

test('counts the 2^64 addresses of an IPv6 network and finds the next without walking through them', async () => {
  const pool = await create({
    networkName: 'six',
    cidr: '2001:DB8::/64',
    gateway: '2001:db8::1',
    reserved: ['2001:db8:0:0:ffff:ffff:ffff:ffff'],
  })
  expect(pool).toMatchObject({ cidr: '2001:db8::/64', rangeStart: '2001:db8::1', reservedCount: 2 })
  expect([pool.total, pool.availableCount]).toEqual(['18446744073709551615', '18446744073709551613'])
  const far = await server('far', { networkMode: 'six', primaryIp: '2001:DB8:0:0:8000::1' })
  expect(far.primaryIp).toBe('2001:db8::8000:0:0:1')
  expect(await server('near', { networkMode: 'six' })).toMatchObject({ primaryIp: '2001:db8::2' })
  expect(await free({ limit: 2 })).toEqual(['2001:db8::3', '2001:db8::4'])
  expect(await get(pool)).toMatchObject({ usedCount: 2, availableCount: '18446744073709551611' })
  const small = await create({ networkName: 'sixteen', cidr: '2001:db8:1::/124', startIp: '2001:db8:1::8' })
  expect(small).toMatchObject({ total: 8, rangeStart: '2001:db8:1::8', rangeEnd: '2001:db8:1::f' })
})

test('refuses what is no network, or lies outside of it, with the field', async () => {
  const fields = async (pool: object) => (await refusal(create(pool))).fields
  for (const cidr of ['10.0.0.0', '10.0.0.0/33', '10.0.0/24', '2001:db8::/129', 'fe80::%eth0/64', 'x', '0.0.0.0/32']) {
    expect([cidr, await fields({ cidr })]).toEqual([cidr, ['body.cidr']])
  }
  for (const ip of ['10.0.1.1', '10.0.0.0', '10.0.0.7', '2001:db8::1', 'x']) {
    for (const field of ['gateway', 'startIp', 'endIp']) {
      expect([field, ip, await fields({ [field]: ip })]).toEqual([field, ip, [`body.${field}`]])
    }
  }
  expect(await fields({ reserved: ['10.0.0.2', '10.0.1.1'] })).toEqual(['body.reserved.1'])
  expect(await fields({ startIp: '10.0.0.4', endIp: '10.0.0.3' })).toEqual(['body.endIp'])
  expect(await fields({ gateway: '10.0.1.1', endIp: '10.0.1.2' })).toEqual(['body.gateway', 'body.endIp'])
  for (const networkName of ['', 'host', 'bridge', 'none', 'a b', '-a', 'x'.repeat(64)]) {
    expect([networkName, await fields({ networkName })]).toEqual([networkName, ['body.networkName']])
  }
  expect((await refusal(create({ nodeId: 'node_none' }))).code).toBe('NODE_NOT_FOUND')
  expect(await names({ nodeId: at.nodeId })).toEqual([])
  for (const [cidr, total] of [
    ['10.9.0.0/31', 2],
    ['10.9.0.2/32', 1],
    ['2001:db8::/127', 2],
  ] as const) {
    expect([cidr, (await create({ cidr, networkName: cidr.replaceAll(/\W/g, '-') })).total]).toEqual([cidr, total])
  }
})

test('refuses networks of a node that overlap, also when they come at once, and lets each node have its own', async () => {
  const pool = await create({ cidr: '10.0.0.0/24' })
  for (const cidr of ['10.0.0.0/24', '10.0.0.128/25', '10.0.0.7/32', '10.0.0.0/8']) {
    expect([cidr, (await refusal(create({ networkName: 'other', cidr }))).code]).toEqual([
      cidr,
      'ADMIN_IP_POOL_OVERLAP',
    ])
  }
  expect((await refusal(create({ cidr: '10.7.0.0/24' }))).code).toBe('ADMIN_IP_POOL_OVERLAP')
  const next = await create({ networkName: 'next', cidr: '10.0.1.0/24' })
  // As numbers these would lie in 10.0.0.0/24; as addresses they do not.
  await create({ networkName: 'six', cidr: '::a00:0/120' })
  expect((await refusal(edit(next, { cidr: '10.0.0.0/23' }))).code).toBe('ADMIN_IP_POOL_OVERLAP')
  expect(await edit(pool, { cidr: '10.0.0.0/25' })).toMatchObject({ cidr: '10.0.0.0/25' })
  const body = { name: 'another', locationId: at.locationId, maxMemoryMb: 1024, maxCpuCores: 4 }
  const { id: nodeId } = await panel.admin.call(createNode, { body })
  expect(await create({ nodeId, cidr: '10.0.0.0/24' })).toMatchObject({ nodeName: 'another' })
  const tries = await Promise.allSettled(
    Array.from({ length: 10 }, (_, i) => create({ networkName: `n${i}`, cidr: `172.16.${i}.0/20` })),
  )
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('edits a pool unless a server would fall out of it, and audits what has changed', async () => {
  const pool = await create({ cidr: '10.0.0.0/24' })
  await inPool('five', '10.0.0.5')
  const refused = async (body: Edit) => {
    const { code, fields } = await refusal(edit(pool, body))
    return [code, ...fields]
  }
  expect(await refused({ cidr: '10.0.1.0/24' })).toEqual(['VALIDATION_ERROR', 'body.cidr'])
  expect(await refused({ startIp: '10.0.0.6' })).toEqual(['VALIDATION_ERROR', 'body.startIp'])
  expect(await refused({ endIp: '10.0.0.4' })).toEqual(['VALIDATION_ERROR', 'body.endIp'])
  expect(await refused({ reserved: ['10.0.0.4', '10.0.0.5'] })).toEqual(['VALIDATION_ERROR', 'body.reserved'])
  expect(await refused({ gateway: '10.0.0.5' })).toEqual(['VALIDATION_ERROR', 'body.gateway'])
  const body = { startIp: '10.0.0.5', endIp: '10.0.0.9', reserved: ['10.0.0.6'], gateway: '10.0.0.1' }
  expect(await edit(pool, body)).toMatchObject({ ...body, total: 5, reservedCount: 1, usedCount: 1, availableCount: 3 })
  await edit(pool, body)
  expect(await edit(pool, { gateway: null, endIp: null })).toMatchObject({ gateway: null, rangeEnd: '10.0.0.254' })
  expect((await refusal(edit({ id: 'ipp_none' }, {}))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
  expect((await refusal(remove(pool))).code).toBe('ADMIN_IP_POOL_IN_USE')
  const rows = await panel.admin.call(listAuditLogs, { query: { resourceId: pool.id } })
  expect(rows.map(({ action }) => action)).toEqual(['ip_pool.update', 'ip_pool.update', 'ip_pool.create'])
  expect(rows[1]?.details).toMatchObject({ endIp: { before: null, after: '10.0.0.9' } })
  const events = await panel.db.read.selectFrom('event').select('type').where('data', 'like', `%${pool.id}%`).execute()
  expect(events.map(({ type }) => type).filter((type) => type !== 'audit_log_created')).toEqual([
    'ip_pool_created',
    'ip_pool_updated',
    'ip_pool_updated',
  ])
})

test('deletes a pool that no server has an address of, and goes with its node', async () => {
  const pool = await create()
  const one = await inPool('one')
  expect((await refusal(remove(pool))).code).toBe('ADMIN_IP_POOL_IN_USE')
  await forget(one)
  await remove(pool)
  expect((await refusal(remove(pool))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
  expect((await refusal(get(pool))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
  const again = await create()
  await panel.admin.call(deleteNode, { params: { nodeId: at.nodeId } })
  expect((await refusal(get(again))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
})

test('an address of a pool belongs to one server, whichever way it is asked for', async () => {
  const pool = await create()
  const params = { nodeId: at.nodeId }
  await panel.admin.call(createAllocations, { params, body: { ip: '10.0.0.2', ports: '80,81' } })
  const { data: rows } = await panel.admin.page(listAllocations, { params, query: {} })
  const allocationOf = (port: number) => rows.find((row) => row.port === port)?.id ?? ''
  const one = await server('one', { allocationId: allocationOf(80) })
  expect(one).toMatchObject({ primaryIp: '10.0.0.2', networkMode: 'lan' })
  expect((await refusal(server('two', { allocationId: allocationOf(81) }))).code).toBe('ALLOCATION_IN_USE')
  expect((await refusal(inPool('three', '10.0.0.2'))).code).toBe('ALLOCATION_IN_USE')
  expect(await inPool('four')).toMatchObject({ primaryIp: '10.0.0.1' })
  // What the pool does not give out may be shared, as before.
  await edit(pool, { reserved: ['10.0.0.6'] })
  expect(await server('five', { primaryIp: '10.0.0.6', primaryPort: 1 })).toMatchObject({ networkMode: 'host' })
  expect(await server('six', { primaryIp: '10.0.0.6', primaryPort: 2 })).toMatchObject({ networkMode: 'host' })
  expect((await refusal(inPool('seven', '10.0.0.6'))).fields).toEqual(['body.primaryIp'])
  expect((await refusal(inPool('eight', '10.0.9.9'))).fields).toEqual(['body.primaryIp'])
  expect((await refusal(server('nine', { networkMode: 'wan' }))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
  const both = { networkMode: 'lan', allocationId: allocationOf(81) }
  expect((await refusal(server('ten', both))).fields).toEqual(['body.networkMode'])
  expect(await server('eleven', { networkMode: 'bridge', primaryPort: 3 })).toMatchObject({ networkMode: 'host' })
})

test('a server that moves gives its address back', async () => {
  const pool = await create()
  const one = await inPool('one')
  const move = (body: object) => panel.admin.call(updateServer, { params: { serverId: one.id }, body })
  expect(await move({ primaryPort: 80 })).toMatchObject({ primaryIp: '10.0.0.1', networkMode: 'lan' })
  const { data } = await panel.admin.page(listAllocations, { params: { nodeId: at.nodeId }, query: {} })
  expect(data.map(({ ip, port }) => `${ip} ${port}`)).toEqual(['10.0.0.1 80'])
  expect(await move({ primaryIp: '10.0.0.4' })).toMatchObject({ primaryIp: '10.0.0.4', networkMode: 'lan' })
  const params = {
    nodeId: at.nodeId,
    allocationId:
      (await panel.admin.page(listAllocations, { params: { nodeId: at.nodeId }, query: {} })).data[0]?.id ?? '',
  }
  await panel.admin.call(updateAllocation, { params, body: { notes: 'ours' } })
  expect(await move({ primaryIp: '127.0.0.1' })).toMatchObject({ primaryIp: '127.0.0.1', networkMode: 'host' })
  expect(await get(pool)).toMatchObject({ usedCount: 0 })
  const left = await panel.admin.page(listAllocations, { params: { nodeId: at.nodeId }, query: {} })
  expect(left.data.map(({ ip, server: of }) => [ip, of?.name])).toEqual([
    ['10.0.0.4', undefined],
    ['127.0.0.1', named('one')],
  ])
})

test('servers that were there before the pool keep their addresses, and share none that it gives out', async () => {
  await server('one', { primaryIp: '10.0.0.1' })
  await server('two', { primaryIp: '10.0.0.2', primaryPort: 1 })
  await server('three', { primaryIp: '10.0.0.2', primaryPort: 2 })
  expect((await refusal(create())).fields).toEqual(['body.reserved'])
  const pool = await create({ reserved: ['10.0.0.2'] })
  expect(pool.allocations).toMatchObject([{ ip: '10.0.0.1', serverName: named('one') }])
  expect((await refusal(edit(pool, { reserved: [] }))).fields).toEqual(['body.reserved'])
  expect(await inPool('four')).toMatchObject({ primaryIp: '10.0.0.3' })
})

test('lists pools by node and network, and what a node has free', async () => {
  await create({ networkName: 'b', cidr: '10.0.1.0/30' })
  await create({ networkName: 'a', cidr: '10.0.0.0/30' })
  expect(await names({ nodeId: at.nodeId })).toEqual(['a', 'b'])
  expect(await names({ nodeId: at.nodeId, limit: 1, page: 2 })).toEqual(['b'])
  expect(await names({ nodeId: 'node_none' })).toEqual([])
  expect(await names({ nodeId: at.nodeId, search: '10.0.1' })).toEqual(['b'])
  const { data } = await panel.admin.page(api.listNodePools, { params: { nodeId: at.nodeId } })
  expect(data).toMatchObject([{ networkName: 'a', cidr: '10.0.0.0/30', availableCount: 2 }, { networkName: 'b' }])
  expect(await free()).toEqual(['10.0.0.1', '10.0.0.2', '10.0.1.1', '10.0.1.2'])
  expect(await free({ networkName: 'b', limit: 1 })).toEqual(['10.0.1.1'])
  expect((await refusal(free({ networkName: 'c' }))).code).toBe('ADMIN_IP_POOL_NOT_FOUND')
})
