import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey, deleteApiKey, listApiKeys } from '../../../src/shared/api/api-keys.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { createLocation, listLocations } from '../../../src/shared/api/locations.ts'
import { enablePlugin } from '../../../src/shared/api/plugins.ts'
import { createRole, updateRole } from '../../../src/shared/api/roles.ts'
import { banUser, createUser } from '../../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { callRoute, enable, show, until, writePlugin } from './plugin-stage.ts'

const PASSWORD = 'Correct-horse-1'

/** Calls the API as it is told, and remembers the events that it hears. */
const CODE = `
export default async function activate(panel) {
  const heard = []
  const seen = []
  return {
    handlers: {
      call: async ({ body: { method, path, body, query } }) => {
        try {
          return { ok: true, ...(await panel.api(method, path, { body, query })) }
        } catch (error) {
          return { ok: false, code: error.code, status: error.status, isRefusal: error instanceof panel.PanelRefusal }
        }
      },
      heard: () => heard,
      onLocation: (event) => { heard.push(event.data.locationName) },
      store: async ({ body: { op, args } }) => {
        try {
          return { value: await panel.storage[op](...args) }
        } catch (error) {
          return { code: error.code }
        }
      },
      tick: () => { seen.push(1) },
      ticks: () => seen.length,
    },
  }
}`
const route = (method: string, path: string, handler: string, permission = 'session') => ({
  method,
  path,
  handler,
  permission,
})
const MANIFEST = {
  permissions: ['location.read', 'location.create'],
  routes: [
    route('POST', '/call', 'call', 'location.read'),
    route('GET', '/heard', 'heard'),
    route('GET', '/ticks', 'ticks'),
    route('POST', '/store', 'store'),
  ],
  events: [{ type: 'location_created', handler: 'onLocation' }],
  tasks: [{ name: 'tick', cron: '* * * * * *', handler: 'tick' }],
}

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
  await writePlugin(panel.dataDir, 'caller', { manifest: MANIFEST, code: CODE })
})
afterAll(() => panel.close())

/** A user with a role of exactly these permissions, signed in. */
async function person(name: string, permissions: readonly string[]) {
  const role = await panel.client.call(createRole, { body: { name, permissions: [...permissions] } })
  const email = `${name}@example.org`
  const body = { email, username: name, password: PASSWORD, roleIds: [role.id] }
  const { id } = await panel.client.call(createUser, { body })
  const { token } = await panel.as(undefined).call(login, { body: { email, password: PASSWORD } })
  return { id, roleId: role.id, token, client: panel.as(token) }
}

const call = (method: string, path: string, extra: object = {}) =>
  callRoute(panel, 'caller/call', { method: 'POST', body: { method, path, ...extra } }).then(({ data }) => data)
const make = (name: string) => panel.client.call(createLocation, { body: { name } })
const heard = async () => (await callRoute(panel, 'caller/heard')).data
const listing = () => call('GET', '/api/locations', { query: { limit: 1 } })
const store = async (op: string, ...args: unknown[]) =>
  (await callRoute(panel, 'caller/store', { method: 'POST', body: { op, args } })).data

describe('the rights of a plugin', () => {
  it('cannot be given by who does not hold them himself', async () => {
    const weak = await person('weak', ['admin.write', 'location.read'])
    const request = { params: { name: 'caller' }, body: { enabled: true } }
    const refusal = { code: 'PERMISSION_DENIED', meta: { missing: ['location.create'] } }
    await expect(weak.client.call(enablePlugin, request)).rejects.toMatchObject(refusal)
    const none = await person('none', ['admin.read', 'location.read', 'location.create'])
    await expect(none.client.call(enablePlugin, request)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
    expect(await show(panel, 'caller')).toMatchObject({ status: 'disabled', keyId: null, granted: [] })
    // A key that carries less than its owner gives no more than it carries.
    const body = { name: 'narrow', permissions: ['admin.write'] }
    const { key } = await panel.client.call(createApiKey, { body })
    await expect(panel.as(key).call(enablePlugin, request)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
  })

  it('are those that its manifest asks for, by a key of who enabled it, and no more', async () => {
    await enable(panel, 'caller')
    const { keyId, granted, enabledBy } = await show(panel, 'caller')
    expect(granted).toEqual(['location.create', 'location.read'])
    const keys = await panel.client.call(listApiKeys, { query: { search: 'plugin caller' } })
    expect(keys).toMatchObject([{ id: keyId, userId: enabledBy, permissions: granted, allPermissions: false }])
    expect(await listing()).toMatchObject({ ok: true, pagination: { total: 1 } })
    const made = await call('POST', '/api/locations', { body: { name: 'by the plugin' } })
    expect(made).toMatchObject({ ok: true, data: { name: 'by the plugin' } })
    const [row] = await panel.client.call(listAuditLogs, { query: { action: 'location.create', limit: 1 } })
    expect(row).toMatchObject({ apiKeyId: keyId, userId: enabledBy, userAgent: 'panel-plugin/caller' })
    expect(await call('GET', '/api/nodes')).toEqual({
      ok: false,
      code: 'PERMISSION_DENIED',
      status: 403,
      isRefusal: true,
    })
    expect(await call('POST', '/api/plugins/caller/reload')).toMatchObject({ code: 'PERMISSION_DENIED' })
  })

  it('reach neither streams, files, other plugins nor anything that is no endpoint', async () => {
    const paths = [
      '/api/admin/events',
      '/api/admin/audit-logs/export',
      '/api/plugins/caller/heard',
      '/healthz',
      '/api/x',
    ]
    for (const path of paths) {
      expect(await call('GET', path), path).toMatchObject({ ok: false, code: expect.stringMatching(/NOT_FOUND|VALID/) })
    }
    expect(await call('GET', '/api/locations/../nodes')).toMatchObject({ code: 'PERMISSION_DENIED' })
  })

  it('open its events, each once and in order', async () => {
    await until('the first is heard', async () => JSON.stringify(await heard()) === '["by the plugin"]')
    for (const name of ['one', 'two', 'three']) await make(name)
    const all = ['by the plugin', 'one', 'two', 'three']
    await until('all are heard', async () => JSON.stringify(await heard()) === JSON.stringify(all))
  })

  it('shrink with those of who enabled it, at once', async () => {
    const admin = await person('boss', ['admin.write', 'location.read', 'location.create'])
    await enable(panel, 'caller', false)
    await admin.client.call(enablePlugin, { params: { name: 'caller' }, body: { enabled: true } })
    expect(await listing()).toMatchObject({ ok: true })
    const permissions = ['admin.write', 'location.create']
    await panel.client.call(updateRole, { params: { roleId: admin.roleId }, body: { permissions } })
    expect(await listing()).toMatchObject({ ok: false, code: 'PERMISSION_DENIED' })
    // An event that it may not read does not reach it, however long it waits.
    await make('secret place')
    await panel.client.call(updateRole, {
      params: { roleId: admin.roleId },
      body: { permissions: [...permissions, 'location.read'] },
    })
    await make('open place')
    await until('the later one is heard', async () => JSON.stringify(await heard()) === '["open place"]')
    await panel.client.call(banUser, { params: { userId: admin.id }, body: {} })
    expect(await listing()).toMatchObject({ ok: false, code: 'UNAUTHENTICATED', status: 401 })
    // Enabled again by somebody else, it has the rights of that one, until its key is deleted.
    await enable(panel, 'caller', false)
    await enable(panel, 'caller')
    expect(await listing()).toMatchObject({ ok: true })
    const { keyId } = await show(panel, 'caller')
    await panel.client.call(deleteApiKey, { params: { keyId: keyId ?? '' } })
    expect(await listing()).toMatchObject({ ok: false, code: 'UNAUTHENTICATED' })
    expect(await show(panel, 'caller')).toMatchObject({ status: 'enabled', keyId: null })
  })

  it('end when it is disabled', async () => {
    await enable(panel, 'caller')
    const { keyId } = await show(panel, 'caller')
    await enable(panel, 'caller', false)
    const keys = await panel.client.call(listApiKeys, { query: { search: 'plugin caller' } })
    expect(keys.filter(({ id }) => id === keyId)).toEqual([])
    expect(await panel.client.call(listLocations)).toHaveLength(7)
  })
})

describe('the routes of a plugin', () => {
  it('ask for what the manifest says before the plugin hears of a request', async () => {
    await enable(panel, 'caller')
    const other = await person('other', ['server.read'])
    const request = { method: 'POST', body: { method: 'GET', path: '/api/locations' } }
    expect(await callRoute(panel, 'caller/call', { ...request, token: other.token })).toMatchObject({
      status: 403,
      code: 'PERMISSION_DENIED',
    })
    expect(await callRoute(panel, 'caller/call', { ...request, token: null })).toMatchObject({ status: 401 })
    expect(await callRoute(panel, 'caller/heard', { token: other.token })).toMatchObject({ status: 200 })
    expect(await callRoute(panel, 'caller/call')).toMatchObject({ status: 404, code: 'NOT_FOUND' })
    expect(await callRoute(panel, 'nobody/call')).toMatchObject({ status: 404, code: 'PLUGIN_NOT_FOUND' })
    const large = { method: 'POST', body: { large: 'x'.repeat(300 * 1024) } }
    expect(await callRoute(panel, 'caller/call', large)).toMatchObject({ status: 413, code: 'PAYLOAD_TOO_LARGE' })
  })
})

describe('what a plugin stores', () => {
  it('stays until it is deleted, within the quota', async () => {
    expect(await store('get', 'a')).toEqual({ value: null })
    await store('set', 'a', { n: [1, 'two'] })
    await store('set', 'b', 2)
    expect(await store('get', 'a')).toEqual({ value: { n: [1, 'two'] } })
    expect(await store('list', 'a')).toEqual({ value: ['a'] })
    expect(await store('delete', 'b')).toEqual({ value: true })
    expect(await store('delete', 'b')).toEqual({ value: false })
    expect(await store('set', 'large', 'x'.repeat(70_000))).toEqual({ code: 'INSUFFICIENT_SPACE' })
    expect(await store('set', '', 1)).toEqual({ code: 'VALIDATION_ERROR' })
    const refused: unknown[] = []
    for (let i = 0; i < 20; i++) refused.push(await store('set', `part ${i}`, 'x'.repeat(60_000)))
    expect(refused.filter((answer) => JSON.stringify(answer).includes('INSUFFICIENT_SPACE'))).toHaveLength(3)
    await enable(panel, 'caller', false)
    await enable(panel, 'caller')
    expect(await store('list')).toEqual({ value: expect.arrayContaining(['a', 'part 0']) })
  })
})

describe('what another plugin stores', () => {
  it('is neither read, listed, changed nor deleted', async () => {
    const code = CODE
    await writePlugin(panel.dataDir, 'stranger', { manifest: { routes: [route('POST', '/store', 'store')] }, code })
    await enable(panel, 'stranger')
    const strange = async (op: string, ...args: unknown[]) =>
      (await callRoute(panel, 'stranger/store', { method: 'POST', body: { op, args } })).data
    await store('delete', 'part 0')
    await store('set', 'mine', 'a secret')
    expect(await strange('get', 'mine')).toEqual({ value: null })
    expect(await strange('list', '')).toEqual({ value: [] })
    expect(await strange('delete', 'mine')).toEqual({ value: false })
    expect(await strange('set', 'mine', 'another')).toEqual({ value: null })
    expect(await store('get', 'mine')).toEqual({ value: 'a secret' })
    expect(await strange('delete', 'mine')).toEqual({ value: true })
    expect(await store('get', 'mine')).toEqual({ value: 'a secret' })
  })
})

describe('the tasks of a plugin', () => {
  it('run at their times', async () => {
    expect((await show(panel, 'caller')).tasks).toMatchObject([{ name: 'tick', nextRun: expect.any(String) }])
    await until('it has ticked', async () => Number((await callRoute(panel, 'caller/ticks')).data) > 0)
  })
})
