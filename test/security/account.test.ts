import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import { createRole } from '../../src/shared/api/roles.ts'
import { listSystemErrors } from '../../src/shared/api/system-errors.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { longestStall } from './stall.ts'

// Whoever has any account: what it sends cannot take the daemon's time.

/** What one request may hold up others for, on a machine that does other things as well. The attacks took many seconds. */
const MOST_MS = 600

let panel: TestPanel
/** Two credentials that may do nothing, and nothing but report errors. */
let nobody: string
let reporter: string

beforeAll(async () => {
  panel = await startPanel()
  const key = async (name: string, permissions: never[]): Promise<string> =>
    (await panel.client.call(createApiKey, { body: { name, permissions } })).key
  nobody = await key('nobody', [])
  reporter = await key('reporter', ['system_error.report'] as never[])
})
afterAll(() => panel.close())

function post(path: string, body: unknown, token = reporter): Promise<Response> {
  return fetch(`${panel.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

/** 10 kB each, made of what the masking looks for. */
const PUMPS = [
  'token',
  'token-',
  'token:',
  'token="',
  "secret:'\\",
  'password = ',
  'token \t',
  'eyJ-',
  'eyJaa.',
  'pak_',
  'pak_a_',
  'bearer ',
  'a://',
  'a://b:',
  '://a:b',
  '-----BEGIN ',
  '-----BEGIN PRIVATE KEY-----',
  '-----BEGIN PRIVATE KEY----------END ',
  '    at /a',
  '/',
  '0x0',
  '"',
]

describe('a report of an error', () => {
  it.each(PUMPS)('of 10 kB of %j and 48 kB of metadata holds nobody up', async (pump) => {
    const text = pump.repeat(Math.floor(9000 / pump.length))
    const metadata = { a: pump.repeat(Math.floor(24_000 / (pump.length + 2))) }
    const report = { component: 'x', message: text.slice(0, 2000), stack: `Error\n${text}`, metadata }
    let status = 0
    const stall = await longestStall(async () => {
      status = (await post('/api/system-errors/report', report, panel.adminToken)).status
    })
    // All come from one account, so that its limit is met at the end; what was refused was not looked at.
    expect([202, 429]).toContain(status)
    expect(stall).toBeLessThan(MOST_MS)
  })

  it('needs a permission', async () => {
    const answer = await post('/api/system-errors/report', { component: 'x', message: 'x' }, nobody)
    expect(answer.status).toBe(403)
    expect(await answer.json()).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect((await post('/api/system-errors/report', { component: 'x', message: 'x' })).status).toBe(202)
  })

  it('is no right of a key that does not name it, nor of one whose owner does not have it', async () => {
    for (const [username, held, named] of [
      ['holder', ['system_error.report', 'apikey.manage'], []],
      ['other', ['apikey.manage'], ['system_error.report']],
    ] as const) {
      const { id } = await panel.client.call(createRole, { body: { name: username, permissions: [...held] } })
      const account = { email: `${username}@example.org`, username, password: 'Correct-horse-1' }
      await panel.client.call(createUser, { body: { ...account, roleIds: [id] } })
      const { email, password } = account
      const { token } = await panel.as(undefined).call(login, { body: { email, password } })
      const made = await panel.as(token).call(createApiKey, { body: { name: 'k', permissions: [...named] } })
      const answer = await post('/api/system-errors/report', { component: 'x', message: 'x' }, made.key)
      expect([username, answer.status]).toEqual([username, 403])
    }
  })

  it('still hides secrets, wherever they stand', async () => {
    const stack = [
      'Error: token=hunter1horse, "apiKey": "hunter2horse \\" hunter3horse"',
      "x-secret-y: 'hunter4horse'",
      `eyJ${'h'.repeat(20)}.${'u'.repeat(20)}.hunter5horse`,
      'https://me:hunter6horse@example.org Authorization: Basic hunter7horse==',
      '-----BEGIN RSA PRIVATE KEY-----\nhunter8horse\n-----END RSA PRIVATE KEY-----',
      '-----BEGIN PRIVATE KEY-----\nhunter9horse',
    ].join('\n')
    expect((await post('/api/system-errors/report', { component: 'hidden', message: 'x', stack })).status).toBe(202)
    const rows = await panel.client.call(listSystemErrors, { query: { component: 'client/hidden' } })
    const [row] = rows.length > 0 ? rows : await written('client/hidden')
    expect(row?.stack).not.toMatch(/hunter\dhorse/)
    expect(row?.stack).toContain('https://me:********@example.org')
  })
})

async function written(component: string) {
  for (const deadline = performance.now() + 10_000; ; ) {
    const rows = await panel.client.call(listSystemErrors, { query: { component } })
    if (rows.length > 0 || performance.now() > deadline) return rows
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

describe('a body that is nested too deep', () => {
  const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`

  it.each([
    ['/api/system-errors/report', (inner: string) => `{"component":"x","message":"x","metadata":{"a":${inner}}}`],
    ['/api/auth/login', (inner: string) => `{"identifier":"a","password":${inner}}`],
    ['/api/templates', (inner: string) => `{"name":"x","startup":"x","features":{"a":${inner}}}`],
    ['/api/plugins/none/route', (inner: string) => inner],
  ])('is refused by %s with the name of the field, and is no bug', async (path, around) => {
    for (const levels of [40, 20_000, 120_000]) {
      const answer = await post(path, around(deep(levels)), panel.adminToken)
      expect(answer.status).toBe(400)
      expect(await answer.json()).toMatchObject({ code: 'VALIDATION_ERROR', details: [{ field: 'body' }] })
    }
    expect(await panel.client.call(listSystemErrors, { query: { component: 'http' } })).toEqual([])
  })

  it('is taken up to the bound, and brackets within texts do not count', async () => {
    const around = (value: unknown) => ({ component: 'bound', message: 'x', metadata: { a: value } })
    expect((await post('/api/system-errors/report', around(JSON.parse(deep(20))))).status).toBe(202)
    expect((await post('/api/system-errors/report', around('['.repeat(5000)))).status).toBe(202)
  })
})

describe('a megabyte of the worst text that an expression knows', () => {
  const MEGABYTE = 1_000_000
  const long = (pump: string, end = ''): string => pump.repeat(Math.floor(MEGABYTE / pump.length)) + end

  it.each([
    ['/api/nodes', { publicAddress: `aaaa${long(':')}\u0001` }],
    ['/api/nodes', { hostname: long('a-', '_') }],
    ['/api/nodes/local/allocations', { ports: long(' ') }],
    ['/api/auth/login', { identifier: long('a@'), password: long('x') }],
    ['/api/auth/register', { username: long('-'), email: long('a.', '@'), password: 'Correct-horse-1' }],
    ['/api/servers', { name: long('é'), environment: { A: long('{{ ') } }],
    ['/api/admin/api-keys', { name: long(' '), permissions: [long('a.', ':')] }],
  ])('as a body of %s is answered without holding anybody up', async (path, body) => {
    let status = 0
    const stall = await longestStall(async () => {
      status = (await post(path, body, panel.adminToken)).status
    })
    expect(status).toBeGreaterThanOrEqual(400)
    expect(status).toBeLessThan(500)
    expect(stall).toBeLessThan(MOST_MS)
  })

  it('as the sender of mails is refused at once', async () => {
    const stall = await longestStall(async () => {
      const answer = await fetch(`${panel.url}/api/admin/smtp`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${panel.adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          enabled: true,
          host: `aaaa${long(':')}!`.slice(0, 300_000),
          from: `${' '.repeat(300_000)}"a" <`,
        }),
      })
      expect(answer.status).toBe(400)
    })
    expect(stall).toBeLessThan(MOST_MS)
  })
})

describe('how somebody signs in', () => {
  const READS = [
    '/api/auth/profile/sessions',
    '/api/auth/profile/passkeys',
    '/api/auth/profile/ssh-keys',
    '/api/auth/profile/sso/accounts',
    '/api/auth/profile/two-factor',
  ]
  const get = (path: string, token: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(`${panel.url}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })

  it.each(READS)('is not shown to a key that may do less than its user: %s', async (path) => {
    const made = await panel.client.call(createApiKey, { body: { name: 'everything', permissions: ['*'] } })
    const whole = await get(path, made.key)
    expect(whole.status).toBe(200)
    // A cached answer of the whole user's is not shown either.
    const etag = whole.headers.get('etag')
    for (const headers of [{}, ...(etag === null ? [] : [{ 'if-none-match': etag }])]) {
      const answer = await get(path, nobody, headers)
      expect(answer.status).toBe(403)
      expect(await answer.json()).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ['*'] } })
    }
  })

  it('is not confirmed by mail for such a key', async () => {
    const answer = await post('/api/auth/profile/resend-verification', {}, nobody)
    expect(answer.status).toBe(403)
  })

  it('does not hide from such a key whose it is', async () => {
    for (const path of ['/api/auth/me', '/api/auth/profile']) expect((await get(path, nobody)).status).toBe(200)
  })
})
