import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listPlugins } from '../../../src/shared/api/plugins.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { callRoute, enable, installExample, show } from './plugin-stage.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
  await installExample(panel.dataDir)
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
    expect(answer.text).toContain('Hello, ann')
    expect(answer).toMatchObject({ status: 200, data: { text: 'Hello, ann', signed: false } })
    expect(await callRoute(panel, 'greeter/greetings/nobody')).toMatchObject({ status: 404, code: 'NOT_FOUND' })
  })
})
