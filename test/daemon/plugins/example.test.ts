import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listPlugins } from '../../../src/shared/api/plugins.ts'
import { createServer } from '../../../src/shared/api/servers.ts'
import { buildWorld, keyWith, SIZE, type World } from '../../contract/world.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { callRoute, enable, show, until } from './plugin-stage.ts'

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel) // it installs the example
  // Its task is for every hour; here it is for every second.
  const file = join(panel.dataDir, 'plugins', 'greeter', 'plugin.json')
  await writeFile(file, (await readFile(file, 'utf8')).replace('0 * * * *', '* * * * * *'))
})
afterAll(() => panel.close())

describe('the example of the documentation', () => {
  it('is listed as disabled until somebody enables it', async () => {
    const [row] = await panel.client.call(listPlugins)
    expect(row).toMatchObject({ name: 'greeter', version: '1.0.0', status: 'disabled', enabled: false, granted: [] })
    expect(await callRoute(panel, 'greeter/greetings/ann')).toMatchObject({ status: 409, code: 'PLUGIN_DISABLED' })
  })

  it('answers by its routes once it is enabled', async () => {
    await enable(panel, 'greeter')
    expect(await show(panel, 'greeter')).toMatchObject({ status: 'enabled', enabled: true, granted: ['server.read'] })
    const answer = await callRoute(panel, 'greeter/greetings/ann')
    expect(answer).toMatchObject({ status: 200, data: { text: 'Hello, ann', signed: false, askedBy: world.adminId } })
    expect(await callRoute(panel, 'greeter/greetings/nobody')).toMatchObject({ status: 404, code: 'NOT_FOUND' })
  })

  it('hears of servers, counts them by its task, and keeps both', async () => {
    const counts = async () => JSON.stringify((await callRoute(panel, 'greeter/changes')).data)
    await until('the task has run', async () => (await counts()) === '{"changes":{},"servers":1}')
    await world.admin.call(createServer, { body: { ...SERVER, ...placeOf(world), ...SIZE } })
    await until('both are noted', async () => (await counts()) === '{"changes":{"server_created":1},"servers":2}')
    const token = await keyWith(panel, ['server.read'])
    const forget = { method: 'DELETE', token }
    expect(await callRoute(panel, 'greeter/changes', forget)).toMatchObject({ status: 403, code: 'PERMISSION_DENIED' })
    expect(await callRoute(panel, 'greeter/changes', { method: 'DELETE' })).toMatchObject({ status: 200, data: true })
    expect(await counts()).toBe('{"changes":{},"servers":2}')
  })
})

const SERVER = { name: 'second', primaryPort: 40_200 }
const placeOf = ({ ids }: World) => ({
  templateId: ids['templateId'] ?? '',
  nodeId: ids['nodeId'] ?? '',
  locationId: ids['locationId'] ?? '',
})
