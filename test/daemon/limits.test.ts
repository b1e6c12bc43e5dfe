import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey, getApiKeyUsage } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader } from './console-reader.ts'

const PASSWORD = 'Correct-horse-1'

let panel: TestPanel
beforeAll(async () => {
  // Not fixed by the environment, as in other tests: here they are changed while the daemon runs.
  panel = await startPanel({
    env: { PANEL_LIMITS__REQUESTS_PER_MINUTE: undefined, PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: undefined },
  })
}, 60_000)
afterAll(() => panel.close())

const get = (token: string) => fetch(`${panel.url}/api/auth/me`, { headers: { authorization: `Bearer ${token}` } })

async function person(username: string): Promise<string> {
  const body = { email: `${username}@example.org`, username, password: PASSWORD }
  await panel.client.call(createUser, { body })
  const { email, password } = body
  return (await panel.as(undefined).call(login, { body: { email, password } })).token
}

const key = async (rateLimitMax: number) =>
  panel.client.call(createApiKey, { body: { name: 'limited', permissions: [], rateLimitMax } })

describe('requests', () => {
  it('of a key are counted down in the answers, and refused beyond its limit', async () => {
    const made = await key(3)
    const usage = async () => (await panel.client.call(getApiKeyUsage, { params: { keyId: made.id } })).remaining
    expect(await usage()).toBe(3)
    const left: unknown[] = []
    for (let i = 0; i < 3; i++) {
      const { status, headers } = await get(made.key)
      left.push([status, headers.get('ratelimit-limit'), headers.get('ratelimit-remaining')])
    }
    expect(left).toEqual([2, 1, 0].map((remaining) => [200, '3', String(remaining)]))
    expect(await usage()).toBe(0)
    const refused = await get(made.key)
    expect(refused.status).toBe(429)
    const wait = Number(refused.headers.get('retry-after'))
    expect(wait).toBeGreaterThan(0)
    expect(wait).toBeLessThanOrEqual(60)
    expect(refused.headers.get('ratelimit-reset')).toBe(String(wait))
    expect(await refused.json()).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 3, retryAfterSeconds: wait } })
  })

  it('of a key without a limit are counted, in its usage and in the metrics, and never refused', async () => {
    const body = { name: 'free', permissions: [], rateLimitEnabled: false, rateLimitMax: 1 }
    const made = await panel.client.call(createApiKey, { body })
    const uses = async (): Promise<number> => {
      const page = await fetch(`${panel.url}/metrics`, { headers: { authorization: `Bearer ${panel.adminToken}` } })
      return Number(
        /^panel_http_credential_uses_total\{kind="unlimited_key"\} (\d+)$/m.exec(await page.text())?.[1] ?? 0,
      )
    }
    const before = await uses()
    for (let i = 0; i < 5; i++) expect((await get(made.key)).status).toBe(200)
    expect(await uses()).toBeGreaterThanOrEqual(before + 5)
    const usage = () => panel.client.call(getApiKeyUsage, { params: { keyId: made.id } })
    while ((await usage()).totalRequests < 5) await systemClock.sleep(50) // written every few seconds
    expect(await usage()).toMatchObject({ totalRequests: 5, remaining: null, lastUsed: expect.any(String) })
  })

  it('of a user are counted over all his sessions, and not against others', async () => {
    const first = await person('ann')
    const other = await person('bob')
    const body = { email: 'ann@example.org', password: PASSWORD }
    const { token: second } = await panel.as(undefined).call(login, { body })
    const remaining = async (token: string) => Number((await get(token)).headers.get('ratelimit-remaining'))
    const before = await remaining(first)
    expect(await remaining(second)).toBe(before - 1)
    expect(await remaining(first)).toBe(before - 2)
    expect(await remaining(other)).toBe(before)
  })

  it('obey a limit from the moment it is changed', async () => {
    const token = await person('cleo')
    for (let i = 0; i < 10; i++) expect((await get(token)).status).toBe(200)
    await panel.configure('limits.requestsPerMinute', 10)
    const lowered = await get(token)
    await panel.configure('limits.requestsPerMinute', 3000)
    const raised = await get(token)
    expect([lowered.status, raised.status]).toEqual([429, 200])
  })
})

describe('requests to one endpoint', () => {
  const change = (token: string, theme: string) =>
    fetch(`${panel.url}/api/auth/profile/preferences`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ theme }),
    })

  it('that changes one’s account are five a minute, more where sign-ins may be more, and counted for each user alone', async () => {
    const [token, other] = [await person('emil'), await person('finn')]
    const statuses: number[] = []
    for (let i = 0; i < 6; i++) statuses.push((await change(token, `theme ${i}`)).status)
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
    const refused = await change(token, 'none')
    expect(await refused.json()).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 5 } })
    expect(refused.headers.get('ratelimit-limit')).toBe('5')
    expect((await get(token)).status).toBe(200)
    expect((await change(other, 'dark')).status).toBe(200)
    await panel.configure('limits.authRequestsPerMinute', 600)
    expect((await change(token, 'dark')).headers.get('ratelimit-limit')).toBe('10')
    await panel.configure('limits.authRequestsPerMinute', 300)
  })

  it('without a credential are counted by address', async () => {
    const validate = () => fetch(`${panel.url}/api/auth/reset-password/validate?token=none`)
    const statuses: number[] = []
    for (let i = 0; i < 6; i++) statuses.push((await validate()).status)
    expect(statuses).toEqual([200, 200, 200, 200, 200, 429])
  })
})

it('whether the setup is done may be asked again and again', async () => {
  await panel.configure('limits.authRequestsPerMinute', 5)
  const ask = async () => (await fetch(`${panel.url}/api/setup/status`)).status
  expect(new Set(await Promise.all(Array.from({ length: 8 }, ask)))).toEqual(new Set([200]))
  await panel.configure('limits.authRequestsPerMinute', 300)
})

describe('streams', () => {
  it('beyond a limit that is lowered end, the newest first', async () => {
    const token = await person('dora')
    const readers: ConsoleReader[] = []
    for (let i = 0; i < 4; i++) {
      const reader = new ConsoleReader(`${panel.url}/api/servers/all-servers/events`, token)
      readers.push(reader)
      await reader.until('connected', (it) => it.of('connected')[0])
    }
    await panel.configure('limits.streamsPerUser', 2)
    const [first, second, third, fourth] = readers
    for (const reader of [third, fourth]) {
      const frame = await reader?.until('the frame', (it) => it.of('error')[0])
      expect(frame?.data).toMatchObject({ error: 'connection_limit', code: 'STREAM_LIMIT_REACHED' })
      await reader?.until('its end', (it) => it.ended)
    }
    expect([first, second].map((reader) => [reader?.ended, reader?.of('error')])).toEqual([
      [false, []],
      [false, []],
    ])
    const refused = await fetch(`${panel.url}/api/servers/all-servers/events`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '30'])
    expect(await refused.json()).toMatchObject({ code: 'STREAM_LIMIT_REACHED', meta: { limit: 2 } })
    for (const reader of readers) reader.close()
    await panel.configure('limits.streamsPerUser', 50)
  })
})
