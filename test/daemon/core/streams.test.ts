import { createServer, type IncomingMessage, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SseConnection } from '../../../src/daemon/http/sse.ts'
import { createApiKey, deleteApiKey, updateApiKey } from '../../../src/shared/api/api-keys.ts'
import { login, logout } from '../../../src/shared/api/auth.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { type PanelOptions, startPanel, type TestPanel } from '../../panel.ts'
import { ConsoleReader } from '../console-reader.ts'
import { type TestClock, testClock } from './test-clock.ts'

let panel: TestPanel | undefined
const readers: ConsoleReader[] = []
afterEach(async () => {
  for (const reader of readers.splice(0)) reader.close()
  await panel?.close()
  panel = undefined
})

async function start(options: PanelOptions = {}): Promise<TestPanel> {
  panel = await startPanel(options)
  return panel
}

function open(at: TestPanel, token: string, path = '/api/admin/events'): ConsoleReader {
  const reader = new ConsoleReader(`${at.url}${path}`, token)
  readers.push(reader)
  return reader
}

async function connected(reader: ConsoleReader): Promise<ConsoleReader> {
  await reader.until('connected', () => reader.of('connected')[0])
  return reader
}

const ending = (reader: ConsoleReader) => reader.of('error').map(({ data }) => data['error'])

describe('an open stream', () => {
  let clock: TestClock
  let at: TestPanel
  beforeEach(async () => {
    clock = testClock()
    at = await start({ clock })
  })

  const makeKey = (more: { expiresIn?: number } = {}) =>
    at.client.call(createApiKey, {
      body: { name: 'stream', permissions: ['server.read'], rateLimitEnabled: false, ...more },
    })

  it.each([
    ['its key is deleted', 'auth_failed', (keyId: string) => at.client.call(deleteApiKey, { params: { keyId } })],
    [
      'its key is disabled',
      'auth_failed',
      (keyId: string) => at.client.call(updateApiKey, { params: { keyId }, body: { enabled: false } }),
    ],
    [
      'its key loses the right',
      'permission_denied',
      (keyId: string) => at.client.call(updateApiKey, { params: { keyId }, body: { permissions: [] } }),
    ],
  ] as const)('ends within a second when %s', async (_, why, revoke) => {
    const { id, key } = await makeKey()
    const reader = await connected(open(at, key))
    const begin = systemClock.monotonicMs()
    await revoke(id)
    await reader.until('its end', () => reader.ended)
    expect(systemClock.monotonicMs() - begin).toBeLessThan(1000)
    expect(ending(reader)).toEqual([why])
  })

  it('ends when its session is ended', async () => {
    const person = { email: 'ann@example.org', username: 'ann', password: 'Correct-horse-1' }
    await at.client.call(createUser, { body: person })
    const { token } = await at.as(undefined).call(login, { body: { email: person.email, password: person.password } })
    const reader = await connected(open(at, token, '/api/servers/all-servers/events'))
    await at.as(token).call(logout)
    await reader.until('its end', () => reader.ended)
    expect(ending(reader)).toEqual(['auth_failed'])
  })

  it('ends with auth_expired when its key or session has expired', async () => {
    const person = { email: 'ann@example.org', username: 'ann', password: 'Correct-horse-1' }
    await at.client.call(createUser, { body: person })
    const { token } = await at.as(undefined).call(login, { body: { email: person.email, password: person.password } })
    const { key } = await makeKey({ expiresIn: 3600 })
    const ofKey = await connected(open(at, key))
    const ofSession = await connected(open(at, token, '/api/servers/all-servers/events'))
    clock.advance(3_601_000)
    await ofKey.until('its end', () => ofKey.ended)
    expect(ending(ofKey)).toEqual(['auth_expired'])
    expect([ending(ofSession), ofSession.ended]).toEqual([[], false])
    clock.advance(24 * 3_600_000)
    await ofSession.until('its end', () => ofSession.ended)
    expect(ending(ofSession)).toEqual(['auth_expired'])
    const again = open(at, key)
    await again.until('a refusal', () => again.status === 401)
  })
})

describe('the daemon', () => {
  it('refuses streams beyond the limit of a user, and takes one when another has gone', async () => {
    const at = await start({ env: { PANEL_LIMITS__STREAMS_PER_USER: '2' } })
    const first = await connected(open(at, at.adminToken))
    await connected(open(at, at.adminToken))
    const refused = await fetch(`${at.url}/api/admin/events`, { headers: { authorization: `Bearer ${at.adminToken}` } })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30'])
    expect(await refused.json()).toMatchObject({
      code: 'STREAM_LIMIT_REACHED',
      meta: { limit: 2, retryAfterSeconds: 30 },
    })
    first.close()
    const deadline = systemClock.monotonicMs() + 10_000
    for (;;) {
      const next = open(at, at.adminToken)
      await next.until('an answer', () => next.status !== 0)
      if (next.status === 200) break
      if (systemClock.monotonicMs() > deadline) throw new Error('the place was not given back')
    }
  })

  it('says goodbye to open streams when it stops, and does not wait for them', async () => {
    const at = await start()
    const reader = await connected(open(at, at.adminToken))
    const begin = systemClock.monotonicMs()
    await at.close()
    panel = undefined
    expect(systemClock.monotonicMs() - begin).toBeLessThan(5000)
    await reader.until('its end', () => reader.ended)
    expect(ending(reader)).toEqual(['server_shutdown'])
  })
})

describe('a connection', () => {
  it('gives a sign of life every 25 s, and none after its end', async () => {
    const clock = testClock()
    await withConnection(clock, null, async (connection, response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
      const beats = () => text.split(': heartbeat\n\n').length - 1
      for (let i = 1; i <= 3; i++) {
        clock.advance(24_999)
        expect(beats()).toBe(i - 1)
        clock.advance(1)
        await waitFor(() => beats() === i)
      }
      expect(text.startsWith(': connected\nretry: 1000\n\n')).toBe(true)
      connection.end()
      clock.advance(100_000)
      await waitFor(() => clock.sleepers() === 0)
      expect(beats()).toBe(3)
    })
  })

  it('is told and ended when it leaves too much unread', async () => {
    await withConnection(testClock(), 1024 * 1024, async (connection, response) => {
      response.pause()
      const padding = 'x'.repeat(64 * 1024)
      let sent = 0
      while (!connection.closed.aborted && sent < 2000) {
        connection.send('filler', { number: sent++, padding })
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect(connection.closed.aborted).toBe(true)
      expect(sent).toBeGreaterThan(16)
      connection.send('filler', { number: -1 })
      let text = ''
      for await (const part of response.setEncoding('utf8')) text += String(part)
      const numbers = [...text.matchAll(/"number":(-?\d+)/g)].map(([, number]) => Number(number))
      expect(numbers).toEqual(Array.from({ length: sent }, (_, i) => i))
      expect(text.trimEnd().split('\n').at(-1)).toContain('"slow_consumer"')
    })
  })

  it('is cut off a while after its end when nobody reads what is left of it', async () => {
    const clock = testClock()
    await withConnection(clock, 1024 * 1024, async (connection, response, server) => {
      response.pause()
      const padding = 'x'.repeat(64 * 1024)
      while (!connection.closed.aborted) {
        connection.send('filler', { padding })
        await new Promise((resolve) => setImmediate(resolve))
      }
      expect(await connections(server)).toBe(1)
      expect(connection.unsentBytes).toBeGreaterThan(0)
      clock.advance(30_000)
      const deadline = systemClock.monotonicMs() + 5000
      while ((await connections(server)) > 0 && systemClock.monotonicMs() < deadline) await systemClock.sleep(5)
      expect(await connections(server)).toBe(0)
    })
  })

  it('is over when the client has gone', async () => {
    await withConnection(testClock(), null, async (connection, response) => {
      response.destroy()
      await waitFor(() => connection.closed.aborted)
      connection.send('nothing', {})
      await connection.drained()
    })
  })
})

/** One connection over a real socket. */
async function withConnection(
  clock: TestClock,
  maxUnsent: number | null,
  work: (connection: SseConnection, response: IncomingMessage, server: Server) => Promise<void>,
): Promise<void> {
  let connection: SseConnection | undefined
  const server = createServer((_, response) => {
    connection = new SseConnection(response, clock, maxUnsent)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  const asked = request({ host: '127.0.0.1', port, agent: false })
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      asked.on('response', resolve).on('error', reject).end()
    })
    response.on('error', () => undefined) // a test that hangs up looks at `closed`
    if (connection === undefined) throw new Error('there is no connection')
    await work(connection, response, server)
  } finally {
    asked.destroy()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
  })
}

async function waitFor(condition: () => boolean): Promise<void> {
  const deadline = systemClock.monotonicMs() + 10_000
  while (!condition()) {
    if (systemClock.monotonicMs() > deadline) throw new Error('it did not come to pass')
    await systemClock.sleep(5)
  }
}
