import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../panel.ts'

const PASSWORD = 'Correct-horse-1'

let panel: TestPanel
let folder: string
let secure: TestPanel
/** Behind a proxy on this machine, as a browser of the same machine finds it. */
let proxied: TestPanel
let session: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-web-page-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const what = ['-subj', '/CN=x', '-addext', 'subjectAltName=DNS:panel.example.net,IP:127.0.0.1', '-days', '2']
  // RSA: with it the old suites without forward secrecy are possible at all.
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...what, '-keyout', key, '-out', cert], {
    stdio: 'ignore',
  })
  panel = await startPanel({ env: { PANEL_HTTP__ALLOWED_HOSTS: 'panel.lan, Games.Example.org' } })
  proxied = await startPanel({
    env: { PANEL_HTTP__TRUSTED_PROXIES: '127.0.0.1', PANEL_HTTP__PUBLIC_URL: 'https://panel.example.org' },
  })
  secure = await startPanel({ env: { PANEL_HTTP__TLS_CERT: cert, PANEL_HTTP__TLS_KEY: key } })
  await panel.client.call(createUser, { body: { email: 'ann@example.org', username: 'ann', password: PASSWORD } })
  session = (await panel.as(undefined).call(login, { body: { email: 'ann@example.org', password: PASSWORD } })).token
}, 60_000)
afterAll(async () => {
  await Promise.all([panel.close(), proxied.close(), secure.close()])
  await rm(folder, { recursive: true })
})

interface Sent {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** A request with any Host header, which `fetch` would not send. */
function send(base: string, path: string, { method = 'GET', headers = {}, body }: Sent = {}) {
  const { port } = new URL(base)
  return new Promise<{ status: number; headers: Readonly<Record<string, unknown>>; text: string }>(
    (resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (answer) => {
        const { statusCode: status = 0, headers: received } = answer
        if (String(received['content-type']).startsWith('text/event-stream')) {
          sent.destroy()
          return resolve({ status, headers: received, text: '' })
        }
        let text = ''
        answer.setEncoding('utf8').on('data', (piece: string) => {
          text += piece
        })
        answer.on('end', () => resolve({ status, headers: received, text }))
      })
      sent.on('error', reject)
      sent.end(body)
    },
  )
}

const guess = (headers: Readonly<Record<string, string>>): Sent => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify({ email: 'ann@example.org', password: 'a guess' }),
})

describe('a page that has pointed its own name at this machine', () => {
  const names = [
    'evil.example',
    'evil.example:7420',
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'panel.lan.evil.example',
    'LOCALHOSTX',
  ]

  it('reads nothing, guesses no password and locks nobody out', async () => {
    for (const host of names) {
      for (let i = 0; i < 6; i++) {
        const { status, text } = await send(panel.url, '/api/auth/login', guess({ host }))
        expect([status, JSON.parse(text).code]).toEqual([403, 'HOST_NOT_ALLOWED'])
      }
      for (const path of ['/api/setup/status', '/api/settings/public', '/health', '/nowhere', '/api/openapi.json']) {
        expect([path, (await send(panel.url, path, { headers: { host } })).status]).toEqual([path, 403])
      }
    }
    const refused = await send(panel.url, '/api/auth/login', guess({ host: 'evil.example' }))
    expect(refused.text).toMatch(/\\"evil\.example\\".*http\.allowedHosts/)
    const body = { email: 'ann@example.org', password: PASSWORD }
    await expect(panel.as(undefined).call(login, { body })).resolves.toMatchObject({ token: expect.any(String) })
  })

  it('gains nothing by the headers of a proxy', async () => {
    const forged = { host: 'evil.example', 'x-forwarded-host': 'panel.example.org', 'x-forwarded-for': '127.0.0.1' }
    expect((await send(panel.url, '/api/auth/login', guess(forged))).status).toBe(403)
    expect((await send(proxied.url, '/api/auth/login', guess(forged))).status).toBe(403)
  })
})

describe('the panel', () => {
  it('answers by addresses, localhost, the names that were configured, and its own', async () => {
    for (const host of [
      '127.0.0.1',
      '127.0.0.1:7420',
      '[::1]:7420',
      '203.0.113.9',
      'localhost:80',
      'LocalHost',
      'a.localhost',
      'panel.lan:1',
      'games.example.org.',
    ]) {
      expect([host, (await send(panel.url, '/health', { headers: { host } })).status]).toEqual([host, 200])
    }
    const by = async (headers: Record<string, string>) => (await send(proxied.url, '/health', { headers })).status
    expect(await by({ host: 'panel.example.org' })).toBe(200)
    expect(await by({ host: '127.0.0.1', 'x-forwarded-host': 'panel.example.org' })).toBe(200)
    expect(await by({ host: '127.0.0.1', 'x-forwarded-host': 'evil.example' })).toBe(403)
  })
})

describe('a page of another site, with the cookie of somebody who is signed in', () => {
  it('changes nothing and tries no password', async () => {
    const cookie = `panel_session=${session}`
    const foreign = { cookie, origin: 'https://evil.example' }
    const code = async (path: string, sent: Sent) => JSON.parse((await send(panel.url, path, sent)).text).code
    const name = { method: 'PATCH', body: JSON.stringify({ firstName: 'x' }) }
    const json = { 'content-type': 'application/json' }
    expect(await code('/api/auth/profile', { ...name, headers: { ...json, ...foreign } })).toBe('CSRF_INVALID')
    for (const site of ['cross-site', 'same-site']) {
      const headers = { ...json, cookie, 'sec-fetch-site': site, origin: panel.url }
      expect(await code('/api/auth/profile', { ...name, headers })).toBe('CSRF_INVALID')
    }
    expect(await code('/api/auth/profile', { ...name, headers: { ...json, cookie } })).toBe('CSRF_INVALID')
    expect(await code('/api/auth/logout', { method: 'POST', headers: foreign })).toBe('CSRF_INVALID')
    // Without a preflight a page may send these kinds of bodies, and one without a kind (a Blob).
    for (const kind of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      undefined,
    ]) {
      const sent = guess({ origin: 'https://evil.example' })
      const { 'content-type': _, ...rest } = sent.headers ?? {}
      const headers = kind === undefined ? rest : { ...rest, 'content-type': kind }
      for (let i = 0; i < 6; i++) expect(await code('/api/auth/login', { ...sent, headers })).toBe('VALIDATION_ERROR')
    }
    const preflight = await send(panel.url, '/api/auth/login', {
      method: 'OPTIONS',
      headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' },
    })
    expect(preflight.headers).not.toHaveProperty('access-control-allow-origin')
    const body = { email: 'ann@example.org', password: PASSWORD }
    await expect(panel.as(undefined).call(login, { body })).resolves.toMatchObject({ token: expect.any(String) })
  })
})

describe('every answer', () => {
  it('forbids frames, scripts, guesses of its kind and referrers, and copies', async () => {
    const expected = {
      'cache-control': expect.stringContaining('no-store'),
      'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    }
    const authorization = `Bearer ${panel.adminToken}`
    const ways: (readonly [string, Sent?])[] = [
      ['/api/servers', { headers: { authorization } }], ['/api/admin/events', { headers: { authorization } }],
      ['/api/admin/audit-logs/export', { headers: { authorization } }], ['/api/servers'], ['/nowhere'], ['/api/%ff'], ['/health'],
      ['/api/openapi.json'], ['/metrics'], ['/api/servers', { headers: { host: 'evil.example' } }],
      ['/api/auth/login', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{' }],
      ['/api/gateway/v1', { headers: { upgrade: 'websocket', connection: 'upgrade' } }],
    ] // biome-ignore format: a list
    for (const [path, sent] of ways) {
      const { headers } = await send(panel.url, path, sent)
      expect(headers, path).toMatchObject(expected)
      expect(headers).not.toHaveProperty('strict-transport-security')
    }
    const forwarded = { host: 'panel.example.org', 'x-forwarded-proto': 'https' }
    const behind = await send(proxied.url, '/health', { headers: forwarded })
    expect(behind.headers['strict-transport-security']).toBe('max-age=31536000')
  })
})

describe('over TLS', () => {
  /** The first line and headers of an answer, or the refusal of the handshake. */
  const shake = (options: object, head: string): Promise<string> =>
    new Promise((resolve) => {
      const { port } = new URL(secure.url)
      const socket = connect({ port: Number(port), host: '127.0.0.1', rejectUnauthorized: false, ...options })
      let text = ''
      socket.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      socket.on('secureConnect', () => socket.write(`${head}connection: close\r\n\r\n`))
      socket.on('error', (error) => resolve(`refused: ${error.message}`))
      socket.on('close', () => resolve(text))
    })
  const get = (host: string): string => `GET /health HTTP/1.1\r\nhost: ${host}\r\n`

  it('takes forward secrecy and authenticated encryption only, and asks browsers to stay with TLS', async () => {
    const weak = [
      'AES256-SHA',
      'AES128-GCM-SHA256',
      'ECDHE-RSA-AES256-SHA',
      'ECDHE-RSA-AES128-SHA256',
      'DHE-RSA-AES256-GCM-SHA384',
    ]
    for (const ciphers of weak) {
      const options = { ciphers: `${ciphers}:@SECLEVEL=0`, maxVersion: 'TLSv1.2' }
      expect([ciphers, await shake(options, get('127.0.0.1'))]).toEqual([ciphers, expect.stringMatching(/^refused: /)])
    }
    const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' }
    expect(await shake(old, get('127.0.0.1'))).toMatch(/^refused: /)
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3']) {
      const answer = await shake({ maxVersion }, get('203.0.113.9'))
      expect(answer).toMatch(/^HTTP\/1\.1 200 /)
      expect(answer.toLowerCase()).toContain('strict-transport-security: max-age=31536000')
    }
    expect((await shake({}, get('localhost'))).toLowerCase()).not.toContain('strict-transport-security')
    expect(await shake({}, get('panel.example.net'))).toMatch(/^HTTP\/1\.1 200 /)
    expect(await shake({}, get('evil.example'))).toMatch(/^HTTP\/1\.1 403 /)
  })
})
