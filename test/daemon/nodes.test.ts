import { afterEach, beforeEach, expect, test } from 'vitest'
import * as api from '../../src/shared/api/nodes.ts'
import { createServer, updateServer } from '../../src/shared/api/servers.ts'
import type { NodeId } from '../../src/shared/kernel/ids.ts'
import { addServer, type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
let at: { locationId: string; nodeId: string; templateId: string }
beforeEach(async () => {
  panel = await startPlacePanel()
  at = await place(panel)
})
afterEach(() => panel.close())

const add = (body: Partial<{ name: string; hostname: string; publicAddress: string; defaultIp: string }> = {}) =>
  panel.admin.call(api.createNode, {
    body: { name: 'rack-2', locationId: at.locationId, maxMemoryMb: 64, maxCpuCores: 0.5, ...body },
  })
const stats = (nodeId: string) => panel.admin.call(api.getNodeStats, { params: { nodeId } })
const edit = (
  body: Partial<{ memoryOverallocatePercent: number; cpuOverallocatePercent: number; defaultIp: string }>,
) => panel.admin.call(api.updateNode, { params: { nodeId: at.nodeId }, body })

test('adds a node that is this machine unless addresses are given', async () => {
  const own = await add()
  expect(own).toMatchObject({ hostname: 'localhost', publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' })
  expect(own).toMatchObject({ status: 'offline', isOnline: false, lastSeenAt: null, serverCount: 0, runtimes: [] })
  expect(own.location).toEqual({ id: at.locationId, name: 'Bonn' })
  const named = await add({ name: 'a', publicAddress: 'play.example.org' })
  expect(named).toMatchObject({ hostname: 'play.example.org', defaultIp: '127.0.0.1' })
  const byIp = await add({ name: 'b', publicAddress: '2001:DB8::0:7' })
  expect(byIp.defaultIp).toBe('2001:db8::7')
  const chosen = await add({ name: 'c', publicAddress: '203.0.113.9', defaultIp: '10.0.0.2' })
  expect(chosen.defaultIp).toBe('10.0.0.2')
  expect((await refusal(add({ name: 'd', defaultIp: '0.0.0.0' }))).fields).toEqual(['body.defaultIp'])
  expect((await refusal(edit({ defaultIp: '::' }))).fields).toEqual(['body.defaultIp'])
})

test('refuses a taken name and an unknown location', async () => {
  expect((await refusal(add({ name: 'RACK-1' }))).code).toBe('NODE_NAME_TAKEN')
  const { id } = await add()
  const params = { nodeId: id }
  const rename = panel.admin.call(api.updateNode, { params, body: { name: 'rack-1' } })
  expect((await refusal(rename)).code).toBe('NODE_NAME_TAKEN')
  const elsewhere = panel.admin.call(api.updateNode, { params, body: { locationId: 'loc_none' } })
  expect((await refusal(elsewhere)).code).toBe('LOCATION_NOT_FOUND')
  const body = { name: 'x', locationId: 'loc_none', maxMemoryMb: 64, maxCpuCores: 1 }
  expect((await refusal(panel.admin.call(api.createNode, { body }))).code).toBe('LOCATION_NOT_FOUND')
})

test('edits only the named fields', async () => {
  const params = { nodeId: at.nodeId }
  const body = { description: 'new', maxCpuCores: 0.25 }
  const edited = await panel.admin.call(api.updateNode, { params, body })
  expect(edited).toMatchObject({ name: 'rack-1', description: 'new', maxCpuCores: 0.25, maxMemoryMb: 1024 })
  const { last } = await panel.bus.bounds()
  expect(await panel.admin.call(api.updateNode, { params, body })).toEqual(edited)
  expect((await panel.bus.bounds()).last).toBe(last)
})

test('lists by name, by location and by search, for administrators with what is given away', async () => {
  await add({ name: 'Alpha', hostname: 'alpha.example.org' })
  await addServer(panel, at)
  const page = await panel.admin.page(api.listNodes, { query: { limit: 1 } })
  expect(page.data.map(({ name }) => name)).toEqual(['Alpha'])
  expect(page.pagination.total).toBe(2)
  const found = await panel.admin.call(api.listNodes, { query: { search: 'EXAMPLE.org' } })
  expect(found.map(({ name }) => name)).toEqual(['Alpha'])
  expect(await panel.admin.call(api.listNodes, { query: { locationId: 'loc_none' } })).toEqual([])
  const rows = await panel.admin.call(api.listAdminNodes, { query: {} })
  expect(rows).toMatchObject([
    { name: 'Alpha', allocatedMemoryMb: 0, allocatedCpuCores: 0, runningServers: 0, serverCount: 0 },
    { name: 'rack-1', allocatedMemoryMb: 128, allocatedCpuCores: 0.5, runningServers: 0, serverCount: 1 },
  ])
})

test('is online by its connection, offline after it, stale after five minutes', async () => {
  const params = { nodeId: at.nodeId }
  const status = async () => (await panel.admin.call(api.getNode, { params })).status
  panel.online.add(at.nodeId)
  expect(await status()).toBe('online')
  panel.online.clear()
  await panel.db.write(async (tx) => {
    await tx.q.updateTable('node').set({ lastSeenAt: tx.now }).where('id', '=', at.nodeId).execute()
  })
  expect(await status()).toBe('offline')
  panel.advance(5 * 60_000 + 1000)
  expect(await status()).toBe('stale')
  await panel.db.write(async (tx) => {
    await tx.q.updateTable('node').set({ maintenance: 1 }).where('id', '=', at.nodeId).execute()
  })
  expect(await status()).toBe('maintenance')
})

test('shows its servers and is not deleted while it has any', async () => {
  const params = { nodeId: at.nodeId }
  const server = await addServer(panel, at)
  const node = await panel.admin.call(api.getNode, { params })
  expect(node.servers).toEqual([{ id: server.id, uuid: server.uuid, name: server.name, status: server.status }])
  expect((await refusal(panel.admin.call(api.deleteNode, { params }))).code).toBe('NODE_IN_USE')
  const { id: nodeId } = await add()
  const ended: string[] = []
  panel.keys.onRevoked((id) => ended.push(id))
  const { apiKey } = await panel.admin.call(api.createNodeKey, { params: { nodeId }, body: {} })
  expect(await panel.admin.call(api.deleteNode, { params: { nodeId } })).toEqual({ deletedApiKeys: 1 })
  expect(ended).toEqual([nodeId])
  expect(await panel.keys.verify(nodeId, apiKey)).toBe('unknown')
  expect((await refusal(panel.admin.call(api.getNode, { params: { nodeId } }))).code).toBe('NODE_NOT_FOUND')
  expect((await refusal(panel.admin.call(api.deleteNode, { params: { nodeId } }))).code).toBe('NODE_NOT_FOUND')
})

test('a deletion that is refused leaves the key of the node alive', async () => {
  await addServer(panel, at)
  const params = { nodeId: at.nodeId }
  const ended: string[] = []
  panel.keys.onRevoked((id) => ended.push(id))
  const { apiKey } = await panel.admin.call(api.createNodeKey, { params, body: {} })
  await refusal(panel.admin.call(api.deleteNode, { params }))
  expect(await panel.keys.verify(at.nodeId, apiKey)).toBe('ok')
  expect(ended).toEqual([])
})

test('counts what it has given away against its maximum', async () => {
  await addServer(panel, at)
  const plain = await stats(at.nodeId)
  expect(plain.resources).toMatchObject({
    effectiveMaxMemoryMb: 1024,
    availableMemoryMb: 896,
    memoryUsagePercent: 12.5,
    allocatedCpuCores: 0.5,
    availableCpuCores: 3.5,
    cpuUsagePercent: 12.5,
    actualMemoryUsageMb: null,
  })
  expect(plain.servers).toEqual({ total: 1, running: 0, stopped: 1 })
  expect(plain.lastMetricsUpdate).toBeNull()
  await edit({ memoryOverallocatePercent: 50, cpuOverallocatePercent: -1 })
  const over = await stats(at.nodeId)
  expect(over.resources).toMatchObject({ effectiveMaxMemoryMb: 1536, effectiveMaxCpuCores: null })
  expect(over.resources).toMatchObject({ availableCpuCores: null, cpuUsagePercent: null })
})

test('shows the last figures of its agent', async () => {
  const health = {
    cpuPercent: 12.5,
    load1: 1,
    memoryUsageMb: 300,
    memoryTotalMb: 2000,
    diskUsageMb: 5,
    diskTotalMb: 90,
  }
  const rest = { networkRxBytes: '0', networkTxBytes: '0', uptimeSeconds: 1, runningServers: 0 }
  panel.health.set(at.nodeId, { health: { ...health, ...rest }, atMs: Date.UTC(2026, 0, 1) })
  const shown = await stats(at.nodeId)
  expect(shown.lastMetricsUpdate).toBe('2026-01-01T00:00:00.000Z')
  expect(shown.resources).toMatchObject({ actualCpuPercent: 12.5, actualMemoryUsageMb: 300, actualDiskTotalMb: 90 })
})

test('gives the last of its memory to one of two servers that want it at once', async () => {
  const want = (name: string, primaryPort: number) =>
    addServer(panel, at, { name, primaryPort, allocatedMemoryMb: 600 })
  const tries = await Promise.allSettled([want('a', 1001), want('b', 1002), want('c', 1003)])
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const lost = tries.find((one) => one.status === 'rejected')
  expect(lost?.reason).toMatchObject({
    code: 'INSUFFICIENT_RESOURCES',
    meta: { available: { memoryMb: 424, cpuCores: 3.5 }, required: { memoryMb: 600, cpuCores: 0.5 } },
  })
})

test('a server that grows does not count its own share twice, and tenths of a core add up', async () => {
  const server = await addServer(panel, at, { allocatedMemoryMb: 1000 })
  const grow = (allocatedMemoryMb: number) =>
    panel.admin.call(updateServer, { params: { serverId: server.id }, body: { allocatedMemoryMb } })
  expect((await grow(1024)).allocatedMemoryMb).toBe(1024)
  expect((await refusal(grow(1025))).code).toBe('INSUFFICIENT_RESOURCES')
  const small = await panel.admin.call(api.createNode, {
    body: { name: 'small', locationId: at.locationId, maxMemoryMb: 1024, maxCpuCores: 0.3 },
  })
  const one = (primaryPort: number) =>
    panel.admin.call(createServer, {
      body: {
        ...at,
        nodeId: small.id satisfies NodeId,
        name: `tenth ${primaryPort}`,
        primaryPort,
        allocatedMemoryMb: 16,
        allocatedDiskMb: 16,
        allocatedCpuCores: 0.1,
      },
    })
  for (const port of [2001, 2002, 2003]) await one(port)
  expect((await refusal(one(2004))).code).toBe('INSUFFICIENT_RESOURCES')
})

test('in maintenance is shown so, takes no new servers, and takes them again afterwards', async () => {
  const params = { nodeId: at.nodeId }
  const switched = (enabled: boolean) => panel.admin.call(api.setNodeMaintenance, { params, body: { enabled } })
  const before = await addServer(panel, at)
  expect(await switched(true)).toMatchObject({ status: 'maintenance', serverCount: 1 })
  const { last } = await panel.bus.bounds()
  expect(await switched(true)).toMatchObject({ status: 'maintenance' })
  expect((await panel.bus.bounds()).last).toBe(last)
  expect((await panel.admin.call(api.listNodes, { query: {} }))[0]).toMatchObject({ status: 'maintenance' })
  const refused = await refusal(addServer(panel, at, { primaryPort: 25_600 }))
  expect(refused).toMatchObject({ code: 'NODE_IN_MAINTENANCE' })
  // What is there already can be edited.
  const renamed = await panel.admin.call(updateServer, { params: { serverId: before.id }, body: { name: 'another' } })
  expect(renamed).toMatchObject({ name: 'another' })
  expect(await switched(false)).toMatchObject({ status: 'offline' })
  expect(await addServer(panel, at, { primaryPort: 25_600 })).toMatchObject({ nodeId: at.nodeId })
})
