import { Agent, fetch as undiciFetch } from 'undici'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import { deleteLockout, listLockouts } from '../../src/shared/api/lockouts.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { type Client, createClient, type Fetch } from '../../src/shared/client.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ConsoleReader } from './console-reader.ts'

const PASSWORD = 'Correct-horse-1'
const WRONG = 'Wrong-horse-11'

let panel: TestPanel
const agents: Agent[] = []
beforeAll(async () => {
  panel = await startPanel()
}, 60_000)
afterAll(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  await panel.close()
})

/** A client that calls from this address of the loopback. */
function from(localAddress: string): Client {
  const agent = new Agent({ localAddress })
  agents.push(agent)
  const fetch: Fetch = (url, init) => undiciFetch(url, { ...init, dispatcher: agent })
  return createClient({ baseUrl: panel.url, fetch })
}

async function person(username: string): Promise<string> {
  const email = `${username}@example.org`
  await panel.client.call(createUser, { body: { email, username, password: PASSWORD } })
  return email
}

/** The refusal of a sign-in, or `in`. */
async function attempt(
  client: Client,
  email: string,
  password: string,
): Promise<Pick<PanelError, 'meta'> & { code: string }> {
  try {
    await client.call(login, { body: { email, password } })
    return { code: 'in', meta: {} }
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    return { code: error.code, meta: error.meta }
  }
}

describe('200 wrong sign-ins at the same time', () => {
  it('are tried as often as configured, and lock out nobody but their own address', { timeout: 60_000 }, async () => {
    await panel.configure('security.lockoutMaxAttempts', 7)
    await panel.configure('security.lockoutDurationMinutes', 3)
    const email = await person('ann')
    const home = from('127.0.0.2')
    const { token } = await home.call(login, { body: { email, password: PASSWORD } })
    const stream = new ConsoleReader(`${panel.url}/api/servers/all-servers/events`, token)
    await stream.until('connected', (reader) => reader.of('connected')[0])

    const thief = from('127.0.0.3')
    const results = await Promise.all(Array.from({ length: 200 }, () => attempt(thief, email, WRONG)))
    const codes = results.map(({ code }) => code)
    expect(codes.filter((code) => code === 'INVALID_CREDENTIALS')).toHaveLength(7)
    expect(codes.filter((code) => code === 'ACCOUNT_LOCKED')).toHaveLength(193)
    for (const { code, meta } of results) {
      if (code === 'ACCOUNT_LOCKED') expect(meta['retryAfterSeconds']).toBeGreaterThan(120)
    }
    const failed = await panel.client.call(listAuditLogs, { query: { action: 'auth.login_failed' } })
    expect(failed.filter(({ ipAddress }) => ipAddress === '127.0.0.3')).toHaveLength(7)

    const rows = await panel.client.call(listLockouts, { query: { search: email, locked: 'true' } })
    expect(rows).toMatchObject([{ email, ipAddress: '127.0.0.3', failureCount: 7 }])
    expect((await attempt(thief, email, PASSWORD)).code).toBe('ACCOUNT_LOCKED')
    expect((await attempt(home, email, PASSWORD)).code).toBe('in')

    const frame = await stream.until('the frame', (reader) => reader.of('error')[0])
    expect(frame.data).toMatchObject({ type: 'error', error: 'auth_lockout', code: 'ACCOUNT_LOCKED' })
    expect(frame.data['retryAfterSeconds']).toBeGreaterThan(170)
    expect(frame.data['retryAfterSeconds']).toBeLessThanOrEqual(180)
    expect(stream.of('error')).toHaveLength(1)
    expect(stream.ended).toBe(false)
    expect(await panel.as(token).call(getMe)).toMatchObject({ username: 'ann' })
    stream.close()
  })
})

describe('a lockout', () => {
  it('says for how long in header and body, alike for an account that there is not', async () => {
    await panel.configure('security.lockoutMaxAttempts', 2)
    const email = await person('bob')
    const answers = []
    for (const [typed, localAddress] of [
      [email, '127.0.0.4'],
      ['nobody@example.org', '127.0.0.5'],
    ] as const) {
      const agent = new Agent({ localAddress })
      agents.push(agent)
      const body = JSON.stringify({ email: typed, password: WRONG })
      const once = async () => {
        const headers = { 'content-type': 'application/json' }
        const response = await undiciFetch(`${panel.url}/api/auth/login`, {
          method: 'POST',
          headers,
          body,
          dispatcher: agent,
        })
        const { requestId: _, ...rest } = Object(await response.json()) as Record<string, unknown> // an envelope
        return { status: response.status, retryAfter: response.headers.get('retry-after'), ...rest }
      }
      answers.push([await once(), await once(), await once()])
    }
    const [known, unknown] = answers
    expect(known?.[2]).toMatchObject({ status: 429, code: 'ACCOUNT_LOCKED', meta: { retryAfterSeconds: 180 } })
    expect(known?.[2]?.retryAfter).toBe('180')
    expect(unknown).toEqual(known)
  })

  it('ends when its row is deleted, failures included, which is audited and announced', async () => {
    await panel.configure('security.lockoutMaxAttempts', 2)
    const email = await person('cleo')
    const client = from('127.0.0.6')
    for (let i = 0; i < 2; i++) await attempt(client, email, WRONG)
    expect((await attempt(client, email, PASSWORD)).code).toBe('ACCOUNT_LOCKED')
    const [row] = await panel.client.call(listLockouts, { query: { search: 'CLEO' } })
    if (row === undefined) throw new Error('there is no row')
    const admin = new ConsoleReader(`${panel.url}/api/admin/events?types=auth_lockout_cleared`, panel.adminToken)
    await admin.until('connected', (reader) => reader.of('connected')[0])
    await panel.client.call(deleteLockout, { params: { lockoutId: row.id } })
    const { data } = await admin.until('the event', (reader) => reader.of('auth_lockout_cleared')[0])
    admin.close()
    expect(data).toMatchObject({ lockoutId: row.id, email, ipAddress: '127.0.0.6' })
    const [entry] = await panel.client.call(listAuditLogs, { query: { action: 'auth_lockout.delete' } })
    expect(entry).toMatchObject({ resourceId: row.id, details: { email, failureCount: 2 } })
    expect((await attempt(client, email, WRONG)).code).toBe('INVALID_CREDENTIALS')
    expect((await attempt(client, email, PASSWORD)).code).toBe('in')
    await expect(panel.client.call(deleteLockout, { params: { lockoutId: row.id } })).rejects.toMatchObject({
      code: 'ADMIN_LOCKOUT_NOT_FOUND',
    })
  })

  it('is listed by page, by account, by address', async () => {
    await panel.configure('security.lockoutMaxAttempts', 5)
    const client = from('127.0.0.7')
    for (const name of ['dora', 'dodo', 'dolf']) await attempt(client, `${name}@d.example.org`, WRONG)
    const byAccount = await panel.client.page(listLockouts, { query: { search: '@d.example.org', limit: '2' } })
    expect([byAccount.data.length, byAccount.pagination.total]).toEqual([2, 3])
    const byAddress = await panel.client.call(listLockouts, { query: { search: '127.0.0.7' } })
    expect(byAddress.map(({ email }) => email).sort()).toEqual([
      '',
      'dodo@d.example.org',
      'dolf@d.example.org',
      'dora@d.example.org',
    ])
    const locked = await panel.client.call(listLockouts, { query: { search: '127.0.0.7', locked: 'true' } })
    expect(locked).toEqual([])
  })
})
