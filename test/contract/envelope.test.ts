import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { send } from './http-call.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(() => panel.close())

const get = (path: string, headers: Record<string, string> = {}) =>
  send({ method: 'GET', url: `${panel.url}${path}`, headers })

describe('a request id', () => {
  it('is kept when it is well-formed, in header, body and audit log', async () => {
    for (const id of ['a', 'A-b_c.9', 'x'.repeat(64)]) {
      const { headers, json } = await get('/api/servers', { 'x-request-id': id })
      expect([headers.get('x-request-id'), json?.requestId]).toEqual([id, id])
    }
    const headers = { 'x-request-id': 'my-location' }
    const body = { name: 'Bonn' }
    await send({ method: 'POST', url: `${panel.url}/api/locations`, token: panel.adminToken, headers, body })
    const rows = await panel.client.call(listAuditLogs, { query: { requestId: 'my-location' } })
    expect(rows.map(({ action, requestId }) => [action, requestId])).toEqual([['location.create', 'my-location']])
    expect(panel.log()).toContain('"requestId":"my-location"')
  })

  it('is a fresh one when it is missing or could be mistaken', async () => {
    const seen = new Set<string>()
    for (const id of [undefined, '', ' ', 'x'.repeat(65), 'a b', '"', 'ä', '../x', '<b>', 'a,b']) {
      const { headers, json } = await get('/api/servers', id === undefined ? {} : { 'x-request-id': id })
      expect(json?.requestId).toMatch(/^[0-9a-z]{26}$/)
      expect(headers.get('x-request-id')).toBe(json?.requestId)
      seen.add(json?.requestId ?? '')
    }
    expect(seen.size).toBe(10)
  })

  it('stands on answers that are no JSON too', async () => {
    for (const path of ['/livez', '/readyz', '/health', '/api/openapi.json', '/api/setup/status']) {
      expect((await get(path, { 'x-request-id': 'here' })).headers.get('x-request-id'), path).toBe('here')
    }
    const stream = await get('/api/admin/events', {
      'x-request-id': 'here',
      authorization: `Bearer ${panel.adminToken}`,
    })
    expect([stream.status, stream.headers.get('x-request-id')]).toEqual([200, 'here'])
  })
})

describe('a refusal', () => {
  it('has the one shape of refusals, with nothing else in it', async () => {
    const refusals = [
      await get('/api/servers'),
      await get('/api/nowhere'),
      await get('/api/servers?limit=0', { authorization: `Bearer ${panel.adminToken}` }),
      await get('/api/servers/srv_none', { authorization: `Bearer ${panel.adminToken}` }),
      await send({ method: 'POST', url: `${panel.url}/api/locations`, token: panel.adminToken, body: '{' }),
    ]
    for (const { json, headers, text } of refusals) {
      const { success, error, code, requestId, ...more } = json ?? {}
      expect(success, text).toBe(false)
      expect(error).toMatch(/^[A-Z].{5,}/)
      expect(code).toMatch(/^[A-Z_]+$/)
      expect(requestId).toMatch(/^[0-9a-z]{26}$/)
      expect(['details', 'meta']).toEqual(expect.arrayContaining(Object.keys(more)))
      expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(headers.get('cache-control')).toBe('no-store')
      expect(text).not.toMatch(/node_modules|\.ts\b|\.js:|SQLITE|at \w+ \(/)
    }
  })

  it('of a way or method that is not there is 404 with the envelope', async () => {
    const ways: [string, string][] = [
      ['GET', '/'],
      ['GET', '/api'],
      ['GET', '/api/'],
      ['GET', '/api/servers/a/b/c/d'],
      ['GET', '/API/servers'],
      ['GET', '/api//servers'],
      ['GET', '/api/admin'],
      ['DELETE', '/api/servers'],
      ['PATCH', '/api/locations'],
      ['POST', '/api/auth/me'],
      ['OPTIONS', '/api/servers'],
      ['POST', '/livez'],
    ]
    for (const [method, path] of ways) {
      const reply = await send({ method, url: `${panel.url}${path}`, token: panel.adminToken })
      expect([method, path, reply.status, reply.json?.code]).toEqual([method, path, 404, 'NOT_FOUND'])
      expect(reply.json?.requestId).toBe(reply.headers.get('x-request-id'))
    }
    const anonymous = await get('/api/nowhere')
    expect([anonymous.status, anonymous.json?.code]).toEqual([404, 'NOT_FOUND'])
  })

  it('of a URL that cannot be decoded has the envelope too', async () => {
    const reply = await get('/api/servers/%zz', {
      'x-request-id': 'bad-url',
      authorization: `Bearer ${panel.adminToken}`,
    })
    expect(reply.json).toMatchObject({ success: false, code: 'VALIDATION_ERROR', requestId: 'bad-url' })
    expect([reply.status, reply.headers.get('x-request-id')]).toEqual([400, 'bad-url'])
  })
})

describe('HEAD', () => {
  it('is answered like GET, without the body', async () => {
    const head = async (path: string, token?: string) => {
      const { status, text, headers } = await send({ method: 'HEAD', url: `${panel.url}${path}`, token })
      return [status, text, headers.get('content-type')]
    }
    const type = 'application/json; charset=utf-8'
    expect(await head('/api/servers', panel.adminToken)).toEqual([200, '', type])
    expect(await head('/api/servers')).toEqual([401, '', type])
    expect(await head('/api/nowhere')).toEqual([404, '', type])
  })

  it('says how long the body would be', async () => {
    for (const path of ['/api/servers', '/readyz', '/api/openapi.json']) {
      const asked = { url: `${panel.url}${path}`, token: panel.adminToken }
      const [whole, head] = await Promise.all([send({ ...asked, method: 'GET' }), send({ ...asked, method: 'HEAD' })])
      expect(head.headers.get('content-length'), path).toBe(String(Buffer.byteLength(whole.text)))
    }
  })

  it('of a stream opens none', async () => {
    const path = '/api/admin/events'
    const reply = await send({ method: 'HEAD', url: `${panel.url}${path}`, token: panel.adminToken })
    expect(reply.status).toBe(404)
    expect((await get('/metrics', { authorization: `Bearer ${panel.adminToken}` })).text).not.toMatch(
      /panel_sse_subscribers\{.*\} [1-9]/,
    )
  })
})

describe('bytes that are no HTTP', () => {
  it('do not stop the daemon', async () => {
    const { hostname, port } = new URL(panel.url)
    const status = await new Promise<number | string>((resolve) => {
      const bad = request({
        hostname,
        port,
        path: '/api/servers',
        headers: { 'content-length': '5', 'content-type': 'application/json' },
      })
      bad.on('response', (response) => resolve(response.statusCode ?? 0)).on('error', (error) => resolve(error.message))
      bad.end('{"a"')
      bad.setTimeout(2000, () => bad.destroy(new Error('no answer')))
    })
    expect(status).toBeDefined()
    expect((await get('/livez')).status).toBe(200)
  })
})
