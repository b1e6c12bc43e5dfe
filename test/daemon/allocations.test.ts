import { afterEach, beforeEach, expect, test } from 'vitest'
import * as api from '../../src/shared/api/allocations.ts'
import { updateNode } from '../../src/shared/api/nodes.ts'
import { addServer, type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

interface Query {
  readonly page?: number
  readonly limit?: number
  readonly search?: string
  readonly assigned?: 'true' | 'false'
  readonly serverId?: string
}

let panel: PlacePanel
let at: { locationId: string; nodeId: string; templateId: string }
beforeEach(async () => {
  panel = await startPlacePanel()
  at = await place(panel)
})
afterEach(() => panel.close())

const add = (ip: string, ports: string, note: { alias?: string } = {}) =>
  panel.admin.call(api.createAllocations, { params: { nodeId: at.nodeId }, body: { ip, ports, ...note } })
const page = (query: Query = {}) => panel.admin.page(api.listAllocations, { params: { nodeId: at.nodeId }, query })
const addresses = async (query: Query = {}) => (await page(query)).data.map(({ ip, port }) => `${ip} ${port}`)

test('makes every pair once and counts those that were there', async () => {
  expect(await add('10.0.0.1, 10.0.0.2', '25565,25570 - 25572')).toEqual({ created: 8, skipped: 0 })
  expect(await add('10.0.0.2 10.0.0.3', '25565')).toEqual({ created: 1, skipped: 1 })
  expect(await add('10.0.0.2', '25565')).toEqual({ created: 0, skipped: 1 })
  expect(await add('2001:DB8:0:0::1,2001:db8::1', '1')).toEqual({ created: 1, skipped: 0 })
  expect(await add('::ffff:10.0.0.1', '25565')).toEqual({ created: 0, skipped: 1 })
  expect(await add('10.1.0.7/30', '80')).toEqual({ created: 4, skipped: 0 })
  expect(await addresses({ search: '10.1.0.' })).toEqual(['10.1.0.4 80', '10.1.0.5 80', '10.1.0.6 80', '10.1.0.7 80'])
  expect(await add('2001:db8:1::/126', '80')).toEqual({ created: 4, skipped: 0 })
})

test('refuses what is no address, no port, or too much, with the field', async () => {
  const field = async (ip: string, ports: string) => (await refusal(add(ip, ports))).fields
  for (const ip of [
    'nonsense',
    '10.0.0.256',
    '10.0.0.1/33',
    '10.0.0.1/',
    '1.2.3.4/5/6',
    ', ,',
    '0.0.0.0',
    '::',
    'fe80::1%eth0',
  ]) {
    expect([ip, await field(ip, '80')]).toEqual([ip, ['body.ip']])
  }
  for (const ports of ['0', '65536', '90-80', 'http', '1-2-3', '-5', ',']) {
    expect([ports, await field('10.0.0.1', ports)]).toEqual([ports, ['body.ports']])
  }
  expect(await field('10.0.0.0/8', '80')).toEqual(['body.ip'])
  expect(await field('2001:db8::/32', '80')).toEqual(['body.ip'])
  expect(await field('10.0.0.1', '1-5001')).toEqual(['body.ports'])
  expect(await field('10.0.0.1,10.0.0.2', '1-2501')).toEqual(['body.ports'])
  expect((await page()).pagination.total).toBe(0)
  const params = { nodeId: 'node_none' }
  const body = { ip: '10.0.0.1', ports: '80' }
  expect((await refusal(panel.admin.call(api.createAllocations, { params, body }))).code).toBe('NODE_NOT_FOUND')
  expect((await refusal(panel.admin.call(api.listAllocations, { params, query: {} }))).code).toBe('NODE_NOT_FOUND')
})

test('makes five thousand at once', async () => {
  expect(await add('10.0.0.1,10.0.0.2', '1-2500')).toEqual({ created: 5000, skipped: 0 })
})

test('lists by address as a number and by port, in pages without holes', async () => {
  await add('10.0.0.10,10.0.0.9,2001:db8::1,9.255.0.1', '9-11')
  const all = await addresses()
  expect(all).toEqual(
    ['9.255.0.1', '10.0.0.9', '10.0.0.10', '2001:db8::1'].flatMap((ip) => [9, 10, 11].map((port) => `${ip} ${port}`)),
  )
  const pages: string[] = []
  for (let number = 1; number <= 3; number++) pages.push(...(await addresses({ page: number, limit: 5 })))
  expect(pages).toEqual(all)
  expect((await page({ page: 2, limit: 5 })).pagination).toEqual({ page: 2, limit: 5, total: 12, totalPages: 3 })
  expect(await addresses({ page: 4, limit: 5 })).toEqual([])
})

test('finds by port, by address and port, by alias, and by whether a server has it', async () => {
  await add('10.0.0.1', '25565,25566')
  await add('10.0.0.2', '25565', { alias: 'Lobby' })
  expect(await addresses({ search: '25565' })).toEqual(['10.0.0.1 25565', '10.0.0.2 25565'])
  expect(await addresses({ search: '10.0.0.1:25566' })).toEqual(['10.0.0.1 25566'])
  expect(await addresses({ search: 'lobby' })).toEqual(['10.0.0.2 25565'])
  const server = await addServer(panel, at, { name: 'one', primaryPort: 25_565 })
  expect(await addresses({ assigned: 'true' })).toEqual(['127.0.0.1 25565'])
  expect(await addresses({ serverId: server.id })).toEqual(['127.0.0.1 25565'])
  expect(await addresses({ assigned: 'false' })).toHaveLength(3)
  expect((await page({ assigned: 'true' })).data[0]?.server).toEqual({ id: server.id, name: 'one', status: 'stopped' })
})

test('edits alias and notes, and deletes what no server has', async () => {
  await add('10.0.0.1', '80')
  const [row] = (await page()).data
  const params = { nodeId: at.nodeId, allocationId: row?.id ?? '' }
  const body = { alias: 'web', notes: 'n' }
  expect(await panel.admin.call(api.updateAllocation, { params, body })).toMatchObject(body)
  const cleared = await panel.admin.call(api.updateAllocation, { params, body: { alias: null } })
  expect(cleared).toMatchObject({ alias: null, notes: 'n' })
  await panel.admin.call(api.deleteAllocation, { params })
  expect((await refusal(panel.admin.call(api.deleteAllocation, { params }))).code).toBe('ALLOCATION_NOT_FOUND')
  expect((await refusal(panel.admin.call(api.updateAllocation, { params, body }))).code).toBe('ALLOCATION_NOT_FOUND')
})

test('keeps an allocation that a server has', async () => {
  const server = await addServer(panel, at)
  const [row] = (await page({ serverId: server.id })).data
  const params = { nodeId: at.nodeId, allocationId: row?.id ?? '' }
  expect((await refusal(panel.admin.call(api.deleteAllocation, { params }))).code).toBe('ALLOCATION_IN_USE')
})

test('of fifty servers that want one port one gets it', async () => {
  const want = (name: string) => addServer(panel, at, { name, allocatedMemoryMb: 16, primaryPort: 7777 })
  const tries = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => want(`s${i}`)))
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const codes = new Set(tries.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : [])))
  expect([...codes]).toEqual(['PORT_IN_USE'])
  expect(await addresses()).toEqual(['127.0.0.1 7777'])
})

test('of fifty servers that want one allocation one gets it', async () => {
  await add('10.0.0.1', '7777')
  const [row] = (await page()).data
  const allocationId = row?.id ?? ''
  const want = (name: string) => addServer(panel, at, { name, allocatedMemoryMb: 16, allocationId })
  const tries = await Promise.allSettled(Array.from({ length: 50 }, (_, i) => want(`s${i}`)))
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const codes = new Set(tries.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : [])))
  expect([...codes]).toEqual(['ALLOCATION_IN_USE'])
  const unknown = await refusal(addServer(panel, at, { name: 'x', allocationId: 'alc_none' }))
  expect(unknown.code).toBe('ALLOCATION_NOT_FOUND')
})

test('takes a free allocation by its address instead of making another one', async () => {
  await add('127.0.0.1', '7777', { alias: 'kept' })
  await addServer(panel, at, { name: 'one', primaryPort: 7777 })
  expect((await page()).data).toMatchObject([{ ip: '127.0.0.1', port: 7777, alias: 'kept', server: { name: 'one' } }])
})

test('names the addresses of the node to who means all of them', async () => {
  const own = ['127.0.0.1', '192.168.7.20', 'fd00::7']
  const put = (addresses: readonly string[]) =>
    panel.db.write((tx) =>
      tx.q
        .updateTable('node')
        .set({ addresses: JSON.stringify(addresses) })
        .where('id', '=', at.nodeId)
        .execute(),
    )
  const said = (call: Promise<unknown>) =>
    call.then(
      () => 'nothing',
      (error: { details: readonly { message: string }[] }) => error.details[0]?.message,
    )
  const everywhere = () => addServer(panel, at, { primaryIp: '0.0.0.0' })
  expect(await said(everywhere())).toBe('must be one address of the node: 127.0.0.1') // what people gave it
  await put(own)
  expect(await said(everywhere())).toBe('must be one address of the node: 127.0.0.1, 192.168.7.20, fd00::7')
  const edit = panel.admin.call(updateNode, { params: { nodeId: at.nodeId } as never, body: { defaultIp: '::' } })
  expect(await said(edit)).toBe('must be one address of the node: 127.0.0.1, 192.168.7.20, fd00::7')
  expect(await said(add('0.0.0.0', '80'))).toContain('it must be one address of the node: 127.0.0.1, 192.168.7.20')
  await put(Array.from({ length: 400 }, (_, i) => `10.0.${i >> 8}.${i & 255}`))
  expect(await said(everywhere())).toMatch(/10\.0\.0\.9 and 390 more$/)
})
