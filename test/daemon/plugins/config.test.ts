import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { configurePlugin, getFrontendManifest, reloadPlugin } from '../../../src/shared/api/plugins.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { callRoute, enable, installExample, show, writePlugin } from './plugin-stage.ts'

const CODE = `export default (panel) => ({ handlers: { config: () => panel.config } })`
const MANIFEST = {
  routes: [{ method: 'GET', path: '/shown', permission: 'admin.read', handler: 'config' }],
  configSchema: {
    type: 'object',
    required: ['host'],
    additionalProperties: false,
    properties: {
      host: { type: 'string', pattern: '^[a-z.]+$' },
      port: { type: 'integer', minimum: 1, maximum: 65535, default: 80 },
      lists: { type: 'array', items: { type: 'object', properties: { id: { type: 'integer' } } } },
      password: { type: 'string', writeOnly: true, minLength: 8 },
    },
  },
  frontend: { entry: '/screens/mailer.js' },
}
const SECRET = 'a secret of the plugin'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
  await writePlugin(panel.dataDir, 'mailer', { manifest: MANIFEST, code: CODE })
})
afterAll(() => panel.close())

const configure = (config: Record<string, unknown>, at = panel) =>
  at.client.call(configurePlugin, { params: { name: 'mailer' }, body: { config } })
const given = async () => (await callRoute(panel, 'mailer/shown')).data

describe('the configuration of a plugin', () => {
  it('is needed where the schema says so', async () => {
    await expect(enable(panel, 'mailer')).rejects.toMatchObject({
      code: 'PLUGIN_CONFIG_INVALID',
      details: [{ field: 'config.host', message: 'is required' }],
    })
  })

  it.each([
    [{}, 'body.config.host', 'is required'],
    [{ host: 'UPPER' }, 'body.config.host', 'must match pattern'],
    [{ host: 'a.b', port: '80' }, 'body.config.port', 'must be integer'],
    [{ host: 'a.b', other: 1 }, 'body.config.other', 'is not a field of this plugin'],
    [{ host: 'a.b', lists: [{ id: 1 }, { id: 'x' }] }, 'body.config.lists.1.id', 'must be integer'],
    [{ host: 'a.b', password: 'short' }, 'body.config.password', 'must NOT have fewer than 8 characters'],
  ])('refuses %o and names %s', async (config, field, message) => {
    const details = [{ field, message: expect.stringContaining(message) }]
    await expect(configure(config)).rejects.toMatchObject({ code: 'PLUGIN_CONFIG_INVALID', details })
  })

  it('reaches the plugin with its secrets and defaults, and nobody else sees a secret again', async () => {
    expect(await configure({ host: 'a.b', password: SECRET })).toEqual({ host: 'a.b', password: '********' })
    await enable(panel, 'mailer')
    expect(await given()).toEqual({ host: 'a.b', port: 80, password: SECRET })
    expect((await show(panel, 'mailer')).config).toEqual({ host: 'a.b', password: '********' })
    const row = await readFile(join(panel.dataDir, 'db', 'panel.db-wal'), 'latin1')
    expect(row).toContain('mailer')
    expect(row).not.toContain(SECRET)
  })

  it('keeps a secret whose mask is sent back, starts the plugin anew with a change, and notes it once', async () => {
    const config = { host: 'c.d', password: '********' }
    await configure(config)
    expect(await given()).toEqual({ host: 'c.d', port: 80, password: SECRET })
    await configure({ ...config, password: SECRET })
    await configure(config)
    const rows = await panel.client.call(listAuditLogs, { query: { action: 'plugin.config' } })
    expect(rows.map(({ details }) => details)).toEqual([
      { config: { before: { host: 'a.b', password: '********' }, after: { host: 'c.d', password: '********' } } },
      { config: { before: {}, after: { host: 'a.b', password: '********' } }, replaced: ['password'] },
    ])
    await configure({ host: 'c.d' })
    expect(await given()).toEqual({ host: 'c.d', port: 80 })
  })

  it('is shown to clients with a screen without secrets', async () => {
    const frontend = await panel.client.call(getFrontendManifest, { params: { name: 'mailer' } })
    expect(frontend).toMatchObject({ name: 'mailer', entry: '/screens/mailer.js', config: { host: 'c.d' } })
    await enable(panel, 'mailer', false)
    const gone = panel.client.call(getFrontendManifest, { params: { name: 'mailer' } })
    await expect(gone).rejects.toMatchObject({ code: 'PLUGIN_NOT_FOUND' })
  })
})

describe('a plugin whose folder is changed', () => {
  it('shows no field any more that a newer manifest makes a secret, and keeps its value', async () => {
    const { host, ...properties } = MANIFEST.configSchema.properties
    const configSchema = { ...MANIFEST.configSchema, properties: { ...properties, host: { ...host, writeOnly: true } } }
    await writePlugin(panel.dataDir, 'mailer', { manifest: { ...MANIFEST, configSchema }, code: CODE })
    expect((await show(panel, 'mailer')).config).toEqual({ host: '********' })
    expect(await configure({ host: '********', port: 81 })).toEqual({ host: '********', port: 81 })
    const [row] = await panel.client.call(listAuditLogs, { query: { action: 'plugin.config', limit: 1 } })
    expect(JSON.stringify(row?.details)).not.toContain('c.d')
    await enable(panel, 'mailer')
    expect(await given()).toEqual({ host: 'c.d', port: 81 })
    await enable(panel, 'mailer', false)
  })

  it('is read again by a reload and keeps the rights that it was given', async () => {
    await installExample(panel.dataDir)
    await enable(panel, 'greeter')
    const file = join(panel.dataDir, 'plugins', 'greeter', 'plugin.json')
    const text = await readFile(file, 'utf8')
    const wider = text.replace('"1.0.0"', '"1.1.0"').replace('["server.read"]', '["server.read", "user.read"]')
    await writeFile(file, wider)
    await panel.client.call(reloadPlugin, { params: { name: 'greeter' } })
    expect(await show(panel, 'greeter')).toMatchObject({
      version: '1.1.0',
      status: 'enabled',
      permissions: ['server.read', 'user.read'],
      granted: ['server.read'],
    })
    await enable(panel, 'greeter')
    expect((await show(panel, 'greeter')).granted).toEqual(['server.read', 'user.read'])
    await writeFile(file, wider.replace('"engine": ">=0.1.0 <1.0.0"', '"engine": ">=9.0.0"'))
    const reload = panel.client.call(reloadPlugin, { params: { name: 'greeter' } })
    await expect(reload).rejects.toMatchObject({ code: 'PLUGIN_ERROR', message: expect.stringContaining('>=9.0.0') })
    // What works goes on working.
    expect((await callRoute(panel, 'greeter/greetings/ann')).status).toBe(200)
  })
})

describe('a daemon', () => {
  it('leaves no process of a plugin behind, starts what is wanted again, and has no secrets without a key', async () => {
    const first = await startPanel({ dataDir: join(panel.home, 'other') })
    await writePlugin(first.dataDir, 'mailer', {
      manifest: { ...MANIFEST, permissions: ['location.read'], routes: [...MANIFEST.routes, PID, API] },
      code: `export default (panel) => ({ handlers: {
        config: () => panel.config, pid: () => process.pid, locations: () => panel.api('GET', '/api/locations') } })`,
    })
    await configure({ host: 'a.b', password: SECRET }, first)
    await enable(first, 'mailer')
    const { data: pid } = await callRoute(first, 'mailer/pid')
    await first.close()
    expect(() => process.kill(Number(pid), 0)).toThrow('ESRCH')

    const second = await startPanel({ dataDir: join(panel.home, 'other') })
    await works(second)
    expect((await callRoute(second, 'mailer/locations')).status).toBe(200)
    await second.close()

    const third = await startPanel({ dataDir: join(panel.home, 'other'), env: { PANEL_CREDENTIAL_KEY: undefined } })
    try {
      const shown = await show(third, 'mailer')
      expect(shown).toMatchObject({ wanted: true, config: { host: 'a.b', password: '********' } })
      const missing = { code: 'CREDENTIAL_ENCRYPTION_KEY_MISSING' }
      await expect(configure({ host: 'a.b', password: 'another secret' }, third)).rejects.toMatchObject(missing)
      expect(await configure({ host: 'x.y' }, third).catch((error: unknown) => error)).toEqual({ host: 'x.y' })
      expect(await callRoute(third, 'mailer/pid')).toMatchObject({ status: 200 })
    } finally {
      await third.close()
    }
  })
})

const PID = { method: 'GET', path: '/pid', permission: 'session', handler: 'pid' }
const API = { method: 'GET', path: '/locations', permission: 'session', handler: 'locations' }

async function works(at: TestPanel): Promise<void> {
  const deadline = performance.now() + 15_000
  while ((await show(at, 'mailer')).status !== 'enabled') {
    if (performance.now() > deadline) throw new Error('the plugin does not start again')
  }
}
