import { afterEach, beforeEach, expect, test } from 'vitest'
import * as api from '../../src/shared/api/locations.ts'
import { createNode, deleteNode, updateNode } from '../../src/shared/api/nodes.ts'
import { getServer } from '../../src/shared/api/servers.ts'
import { addServer, type PlacePanel, place, refusal, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
beforeEach(async () => {
  panel = await startPlacePanel()
})
afterEach(() => panel.close())

const add = (name: string, description?: string) =>
  panel.admin.call(api.createLocation, { body: { name, ...(description === undefined ? {} : { description }) } })

test('makes, shows, edits and deletes a location', async () => {
  const made = await add('  Bonn ', 'by the river')
  expect(made).toMatchObject({ name: 'Bonn', description: 'by the river', nodeCount: 0 })
  const params = { locationId: made.id }
  const edited = await panel.admin.call(api.updateLocation, { params, body: { description: null } })
  expect(edited).toMatchObject({ name: 'Bonn', description: null, createdAt: made.createdAt })
  expect(await panel.admin.call(api.getLocation, { params })).toMatchObject({ name: 'Bonn', nodes: [] })
  await panel.admin.call(api.deleteLocation, { params })
  expect((await refusal(panel.admin.call(api.getLocation, { params }))).code).toBe('LOCATION_NOT_FOUND')
  expect((await refusal(panel.admin.call(api.deleteLocation, { params }))).code).toBe('LOCATION_NOT_FOUND')
  expect((await refusal(panel.admin.call(api.updateLocation, { params, body: {} }))).code).toBe('LOCATION_NOT_FOUND')
})

test('refuses a name that would not be one line', async () => {
  for (const name of ['a\nb', 'a\u001b[31mb', ' ']) {
    expect([name, (await refusal(add(name))).fields]).toEqual([name, ['body.name']])
  }
})

test('refuses a name that is taken in another case, also under a race', async () => {
  await add('Bonn')
  expect((await refusal(add('bonn'))).code).toBe('LOCATION_NAME_TAKEN')
  const races = await Promise.allSettled(Array.from({ length: 20 }, () => add('Ulm')))
  expect(races.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  const { id } = await add('Kiel')
  const rename = panel.admin.call(api.updateLocation, { params: { locationId: id }, body: { name: 'ULM' } })
  expect((await refusal(rename)).code).toBe('LOCATION_NAME_TAKEN')
})

test('lists by name in pages and finds by text and by the beginning of the id', async () => {
  for (const name of ['Ulm', 'aachen', 'Bonn_1', 'Bonn21']) await add(name)
  const page = await panel.admin.page(api.listLocations, { query: { page: 1, limit: 3 } })
  expect(page.data.map(({ name }) => name)).toEqual(['aachen', 'Bonn21', 'Bonn_1'])
  expect(page.pagination).toEqual({ page: 1, limit: 3, total: 4, totalPages: 2 })
  const search = async (text: string) =>
    (await panel.admin.call(api.listLocations, { query: { search: text } })).map(({ name }) => name)
  expect(await search('bonn_')).toEqual(['Bonn_1'])
  expect(await search('%')).toEqual([])
  const { id } = await add('Trier')
  expect(await search(id.slice(0, 30))).toContain('Trier')
  expect(await search(id.slice(4))).toEqual(['Trier'])
})

test('writes the log and an event for a change, and neither for an edit that changes nothing', async () => {
  const { id } = await add('Bonn')
  const { last } = await panel.bus.bounds()
  await panel.admin.call(api.updateLocation, { params: { locationId: id }, body: { name: 'Bonn' } })
  expect((await panel.bus.bounds()).last).toBe(last)
  await panel.admin.call(api.updateLocation, { params: { locationId: id }, body: { name: 'Köln' } })
  const events = (await panel.bus.after(last, 10)).map(({ type, data }) => ({ type, data }))
  expect(events).toMatchObject([
    { type: 'audit_log_created', data: { action: 'location.update', resourceId: id } },
    { type: 'location_updated', data: { locationId: id, locationName: 'Köln' } },
  ])
})

test('keeps a location that has nodes, and moves the servers of a node with it', async () => {
  const at = await place(panel)
  const server = await addServer(panel, at)
  const params = { locationId: at.locationId }
  expect((await refusal(panel.admin.call(api.deleteLocation, { params }))).code).toBe('LOCATION_IN_USE')
  const { id: locationId } = await add('Ulm')
  await panel.admin.call(updateNode, { params: { nodeId: at.nodeId }, body: { locationId } })
  const moved = await panel.admin.call(getServer, { params: { serverId: server.id } })
  expect(moved.locationId).toBe(locationId)
  await panel.admin.call(api.deleteLocation, { params })
  const shown = await panel.admin.call(api.getLocation, { params: { locationId } })
  expect(shown).toMatchObject({ nodeCount: 1, nodes: [{ id: at.nodeId, serverCount: 1 }] })
})

test('a node that comes while its location goes leaves one of the two refused', async () => {
  for (let round = 0; round < 10; round++) {
    const { id: locationId } = await add(`place ${round}`)
    const body = { name: `node ${round}`, locationId, maxMemoryMb: 64, maxCpuCores: 1 }
    const [node, gone] = await Promise.allSettled([
      panel.admin.call(createNode, { body }),
      panel.admin.call(api.deleteLocation, { params: { locationId } }),
    ])
    expect([node.status, gone.status].toSorted()).toEqual(['fulfilled', 'rejected'])
    if (node.status === 'rejected') expect(node.reason).toMatchObject({ code: 'LOCATION_NOT_FOUND' })
    if (gone.status === 'rejected') expect(gone.reason).toMatchObject({ code: 'LOCATION_IN_USE' })
    if (node.status === 'fulfilled') await panel.admin.call(deleteNode, { params: { nodeId: node.value.id } })
  }
})

test('refuses without a credential', async () => {
  expect((await refusal(panel.nobody.call(api.listLocations, { query: {} }))).code).toBe('UNAUTHENTICATED')
})
