import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endpoints } from '../../src/shared/endpoints.ts'
import { type Endpoint, isDeclared } from '../../src/shared/kernel/contract.ts'
import { callEndpoint, isObject, type Parts, type Reply } from '../contract/http-call.ts'
import { VALID } from '../contract/inputs.ts'
import { buildWorld, type World } from '../contract/world.ts'
import { startPanel, type TestPanel } from '../panel.ts'

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel)
}, 60_000)
afterAll(() => panel.close())

const find = (id: string): Endpoint => endpoints.find((one) => one.id === id) ?? fail(id)
const call = (id: string, parts: Parts): Promise<Reply> =>
  callEndpoint(panel.url, find(id), parts, { token: panel.adminToken })

function fail(id: string): never {
  throw new Error(`there is no ${id}`)
}

/** Whose bodies hold names that are anybody's. */
const OPEN = ['profile.preferences', 'templates.import_egg']

it('a body with a field that its endpoint does not know is refused by the name of the field, everywhere', async () => {
  const wrong: string[] = []
  for (const endpoint of endpoints) {
    if (
      !isDeclared(endpoint.body) ||
      endpoint.accepts !== 'json' ||
      OPEN.includes(endpoint.id) ||
      endpoint.lenient !== null
    )
      continue
    const params = Object.fromEntries(Object.keys(endpoint.params).map((name) => [name, world.ids[name] ?? 'x']))
    const reply = await callEndpoint(panel.url, endpoint, { params, body: { zzz: 1 } }, { token: panel.adminToken })
    const named = reply.json?.details?.some(({ field }) => field === 'body.zzz')
    if (reply.status !== 400 || named !== true)
      wrong.push(`${endpoint.id}: ${reply.status} ${reply.text.slice(0, 200)}`)
  }
  expect(wrong).toEqual([])
}, 60_000)

/** Endpoints of files and backups, but for those that agents call. */
const EXACT = /^(files|backups|backup_settings|backup_policies|backup_stores|stores|self_backups|sftp)\./

it('a query with a field that files and backups do not know is refused by the name of the field', async () => {
  const wrong: string[] = []
  const exact = endpoints.filter(({ id, access }) => EXACT.test(id) && access !== 'agent')
  expect(exact.length).toBeGreaterThan(60)
  for (const endpoint of exact) {
    const params = Object.fromEntries(Object.keys(endpoint.params).map((name) => [name, world.ids[name] ?? 'x']))
    const query = { zzz: '1' }
    const file = endpoint.accepts === 'multipart' ? { file: new Uint8Array(1) } : {}
    const reply = await callEndpoint(panel.url, endpoint, { params, query, ...file }, { token: panel.adminToken })
    const named = reply.json?.details?.some(({ field }) => field === 'query.zzz')
    if (reply.status !== 400 || named !== true)
      wrong.push(`${endpoint.id}: ${reply.status} ${reply.text.slice(0, 200)}`)
  }
  expect(wrong).toEqual([])
}, 60_000)

const template = { name: 'strict', startup: 'exec sh ./x.sh', allocatedMemoryMb: 64 }
const details = (reply: Reply) => [
  reply.status,
  ...(reply.json?.details ?? []).map(({ field, message }) => `${field} ${message}`),
]

describe('a field that means nothing', () => {
  it('is named with its path, and with the field that was probably meant', async () => {
    expect(details(await call('settings.oidc_update', { body: { providers: [] } }))).toEqual([
      400,
      'body.providers is not a field of this request',
    ])
    expect(details(await call('settings.oidc_update', { body: { whmcs: { clientID: 'x' } } }))).toEqual([
      400,
      'body.whmcs.clientID is not a field of this request; did you mean clientId?',
    ])
    const body = { ...template, config: { files: {} }, stop_command: 'stop', variables: [{ name: 'A', label: 'a' }] }
    expect(details(await call('templates.create', { body }))).toEqual([
      400,
      'body.variables.0.label is not a field of this request',
      'body.config is not a field of this request',
      'body.stop_command is not a field of this request; did you mean stopCommand?',
    ])
    const reply = await call('settings.security_update', { body: { lockoutMaxAttemps: 3 } })
    expect(reply.json?.error).toContain('did you mean lockoutMaxAttempts?')
    expect((await call('locations.create', { body: '{"name":"x","__proto__":{"admin":true}}' })).status).toBe(400)
    const odd = await call('locations.create', { body: { name: 'x', constructor: 1, toString: 2 } })
    expect(details(odd).slice(1)).toEqual([
      'body.constructor is not a field of this request',
      'body.toString is not a field of this request',
    ])
  })

  it('does not hold the daemon up when there are thousands', async () => {
    const many = Object.fromEntries(Array.from({ length: 30_000 }, (_, i) => [`lockoutMaxAttemps${i}`, 1]))
    const before = performance.now()
    const reply = await call('settings.security_update', { body: many })
    expect([reply.status, reply.json?.details?.length]).toEqual([400, 100])
    expect(performance.now() - before).toBeLessThan(2000)
    expect(reply.text.length).toBeLessThan(20_000)
  })

  it('is taken where answers tell it and a client sends them back', async () => {
    for (const [get, put] of [
      ['settings.security_get', 'settings.security_update'],
      ['settings.localization_get', 'settings.localization_update'],
      ['settings.smtp_get', 'settings.smtp_update'],
      ['settings.theme_get', 'settings.theme_update'],
      ['settings.mod_manager_get', 'settings.mod_manager_update'],
    ] as const) {
      // biome-ignore format: pairs
      const { json } = await call(get, {})
      expect([put, (await call(put, { body: json?.data })).status]).toEqual([put, 200])
    }
    const params = { templateId: world.ids['templateId'] ?? '' }
    const { json } = await call('templates.get', { params })
    const shown = isObject(json?.data) ? json.data : {}
    expect((await call('templates.update', { params, body: shown })).status).toBe(200)
    expect((await call('templates.create', { body: { ...shown, name: 'a copy' } })).status).toBe(201)
  })

  it('is taken from programs of other versions', () => {
    const lenient = endpoints.filter((one) => one.lenient !== null).map(({ id }) => id)
    expect(lenient.sort()).toEqual([
      'agent.enroll',
      'passkeys.sign_in',
      'passkeys.verify',
      'sftp.check',
      'sftp.command',
      'sftp.open',
      'sftp.report',
      'stores.ask',
    ])
  })

  it('is taken where the documented clients send it', async () => {
    const made = await VALID['servers.create']?.(world)
    const body = isObject(made?.body) ? made.body : {}
    const extra = { portBindings: {}, subdomain: null, backupAllocationMb: 0, ioWeight: 500 }
    const reply = await call('servers.create', { ...made, body: { ...body, ...extra } })
    expect(reply.status, reply.text).toBe(201)
  })
})

it('a value that breaks several rules of its field is told once', async () => {
  const reply = await call('nodes.create', { body: { name: '', locationId: 'x', maxMemoryMb: -1.5, maxCpuCores: 'x' } })
  const fields = (reply.json?.details ?? []).map(({ field }) => field)
  expect(fields).toEqual([...new Set(fields)])
  expect(fields).toContain('body.maxMemoryMb')
})

describe('a template', () => {
  it('is stopped by signals that exist', async () => {
    for (const [index, stopCommand] of ['^X', '^', '^SIGFOO', '^c', '^SIGSEGV'].entries()) {
      const reply = await call('templates.create', { body: { ...template, name: `bad ${index}`, stopCommand } })
      expect([stopCommand, reply.status, reply.json?.details?.[0]?.field]).toEqual([
        stopCommand,
        400,
        'body.stopCommand',
      ])
    }
    for (const [index, stopCommand] of ['^C', '^^C', '^\\', '^SIGINT', '^SIGKILL', 'stop', 'say ^X', ''].entries()) {
      const reply = await call('templates.create', { body: { ...template, name: `good ${index}`, stopCommand } })
      expect([stopCommand, reply.status]).toEqual([stopCommand, 201])
    }
  })
})
