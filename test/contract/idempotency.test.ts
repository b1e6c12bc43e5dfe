import { createHash } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deleteApiKey, updateApiKey } from '../../src/shared/api/api-keys.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import { createLocation, deleteLocation, listLocations } from '../../src/shared/api/locations.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type Reply, refusalOf, send } from './http-call.ts'
import { keyWith } from './world.ts'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel()
})
afterAll(() => panel.close())

function post(
  key: string | undefined,
  name: string,
  at: { url?: string; token?: string; path?: string } = {},
): Promise<Reply> {
  const { url = panel.url, token = panel.adminToken, path = '/api/locations' } = at
  const headers: Record<string, string> = key === undefined ? {} : { 'idempotency-key': key }
  return send({ method: 'POST', url: `${url}${path}`, token, headers, body: { name } })
}

const named = async (name: string): Promise<string[]> =>
  (await panel.client.call(listLocations, { query: { search: name } })).map(({ id }) => id)
const replayed = (reply: Reply): boolean => reply.headers.get('idempotency-replayed') === 'true'

describe('a POST with an Idempotency-Key', () => {
  it('is carried out once by 50 at a time', async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, () => post('fifty', 'Fifty')))
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([201]))
    expect(new Set(replies.map(({ text }) => text)).size).toBe(1)
    expect(replies.filter((reply) => !replayed(reply))).toHaveLength(1)
    expect(await named('Fifty')).toHaveLength(1)
  })

  it('is carried out 50 times with 50 keys', async () => {
    const replies = await Promise.all(Array.from({ length: 50 }, (_, i) => post(`each ${i}`, `Each ${i}.`)))
    expect(replies.filter(({ status }) => status !== 201)).toEqual([])
    expect((await Promise.all(Array.from({ length: 50 }, (_, i) => named(`Each ${i}.`)))).flat()).toHaveLength(50)
  })

  it('is refused with another body, also while the first one runs', async () => {
    const [first, second] = await Promise.all([post('other', 'Other 1'), post('other', 'Other 2')])
    expect([first.status, second.status].sort()).toEqual([201, 409])
    expect(refusalOf(first.status === 409 ? first : second).code).toBe('IDEMPOTENCY_KEY_REUSED')
    expect(await named('Other')).toHaveLength(1)
  })

  it('means the same whatever the order of the fields and the space between them', async () => {
    const url = `${panel.url}/api/locations`
    const headers = { 'idempotency-key': 'spaces' }
    const bodies = ['{"name":"Spaces","description":"d"}', '{ "description": "d",\n "name": " Spaces " }']
    const [a, b] = [
      await send({ method: 'POST', url, token: panel.adminToken, headers, body: bodies[0] }),
      await send({ method: 'POST', url, token: panel.adminToken, headers, body: bodies[1] }),
    ]
    expect([a.status, b.status, b.text === a.text, replayed(b)]).toEqual([201, 201, true, true])
  })

  it('is another one for another caller and another path', async () => {
    const token = await keyWith(panel, ['location.create', 'template.create'])
    const replies = [
      await post('shared', 'Shared 1'),
      await post('shared', 'Shared 2', { token }),
      await post('shared', 'Shared 3', { token, path: '/api/nests' }),
    ]
    expect(replies.map((reply) => [reply.status, replayed(reply)])).toEqual(Array(3).fill([201, false]))
  })

  it('is not cached when it was refused', async () => {
    const taken = await post(undefined, 'Taken')
    expect(refusalOf(await post('refused', 'Taken'))).toEqual({ status: 409, code: 'LOCATION_NAME_TAKEN' })
    const { id } = createLocation.response.parse(taken.json?.data)
    await panel.client.call(deleteLocation, { params: { locationId: id } })
    const retried = await post('refused', 'Taken')
    expect([retried.status, replayed(retried)]).toEqual([201, false])
    expect(refusalOf(await post('invalid', ''))).toEqual({ status: 400, code: 'VALIDATION_ERROR' })
    expect((await post('invalid', 'Valid now')).status).toBe(201)
  })

  it('counts a failed sign-in once, and says so again', async () => {
    const body = { email: 'counted@example.org', username: 'counted', password: 'Correct-horse-1' }
    await panel.client.call(createUser, { body })
    const attempt = (key: string) =>
      send({
        method: 'POST',
        url: `${panel.url}/api/auth/login`,
        headers: { 'idempotency-key': key },
        body: { email: body.email, password: 'wrong' },
      })
    for (let i = 0; i < 10; i++) expect(refusalOf(await attempt('same')).code).toBe('INVALID_CREDENTIALS')
    const codes = []
    for (let i = 0; i < 5; i++) codes.push((await attempt(`fresh ${i}`)).json?.code)
    expect(codes).toContain('ACCOUNT_LOCKED')
    expect(codes[0]).toBe('INVALID_CREDENTIALS')
  })

  it('sets the session cookie again when a sign-in is repeated', async () => {
    const body = { email: 'cookie@example.org', password: 'Correct-horse-1' }
    await panel.client.call(createUser, { body: { ...body, username: 'cookie' } })
    const url = `${panel.url}/api/auth/login`
    const headers = { 'idempotency-key': 'cookie' }
    const [first, again] = [
      await send({ method: 'POST', url, headers, body }),
      await send({ method: 'POST', url, headers, body }),
    ]
    expect([first.status, replayed(first), again.status, replayed(again)]).toEqual([200, false, 200, true])
    expect(first.headers.getSetCookie()).toHaveLength(1)
    expect(first.headers.getSetCookie()[0]).toMatch(/^panel_session=pst_.*HttpOnly/)
    expect(again.headers.getSetCookie()).toEqual(first.headers.getSetCookie())
  })

  it('leaves no hash of its body by which a password could be guessed', async () => {
    const person = { email: 'guessed@example.org', password: 'Correct-horse-1' }
    await panel.client.call(createUser, { body: { ...person, username: 'guessed' } })
    const body = { ...person, rememberMe: false }
    const url = `${panel.url}/api/auth/login`
    expect((await send({ method: 'POST', url, headers: { 'idempotency-key': 'hash' }, body })).status).toBe(200)
    const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
    const folder = join(panel.dataDir, 'db')
    const files = await readdir(folder, { withFileTypes: true })
    const texts = files.filter((file) => file.isFile()).map(({ name }) => readFile(join(folder, name), 'latin1'))
    const database = (await Promise.all(texts)).join('')
    expect(database).toContain(sha256('127.0.0.1 POST /api/auth/login\nhash'))
    expect(database.includes(sha256(JSON.stringify(body)))).toBe(false)
  })

  it('is not answered to one who may no longer ask', async () => {
    const token = await keyWith(panel, ['location.create'])
    expect((await post('right', 'Right', { token })).status).toBe(201)
    const keyId = (await panel.as(token).call(getMe)).credential.id
    await panel.client.call(updateApiKey, { params: { keyId }, body: { permissions: ['location.read'] } })
    expect(refusalOf(await post('right', 'Right', { token }))).toEqual({ status: 403, code: 'PERMISSION_DENIED' })
    await panel.client.call(deleteApiKey, { params: { keyId } })
    expect(refusalOf(await post('right', 'Right', { token }))).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
  })

  it('must have a key of 1 to 255 characters', async () => {
    for (const key of ['', 'x'.repeat(256)]) {
      const reply = await post(key, 'Lengths')
      expect(refusalOf(reply), `of ${key.length}`).toEqual({ status: 400, code: 'VALIDATION_ERROR' })
      expect(reply.json?.details).toMatchObject([{ field: 'headers.idempotency-key' }])
    }
    expect((await post('x'.repeat(255), 'Lengths')).status).toBe(201)
  })
})

describe('an Idempotency-Key', () => {
  it('on another method than POST means nothing', async () => {
    const made = await post(undefined, 'Put')
    const { id } = createLocation.response.parse(made.json?.data)
    const put = (name: string) =>
      send({
        method: 'PUT',
        url: `${panel.url}/api/locations/${id}`,
        token: panel.adminToken,
        headers: { 'idempotency-key': 'put' },
        body: { name },
      })
    expect([(await put('Put 1')).status, (await put('Put 2')).status]).toEqual([200, 200])
    expect(await named('Put 2')).toEqual([id])
  })

  it('outlives a restart of the daemon', { timeout: 60_000 }, async () => {
    const home = await mkdtemp(join(tmpdir(), 'panel-restart-'))
    try {
      const before = await startPanel({ dataDir: home })
      const made = await post('restart', 'Restart', { url: before.url, token: before.adminToken })
      await before.close()
      const after = await startPanel({ dataDir: home })
      const at = { url: after.url, token: before.adminToken }
      const [again, other] = [await post('restart', 'Restart', at), await post('restart', 'Another', at)]
      const rows = await after.client.call(listLocations, { query: { search: 'Restart' } })
      await after.close()
      expect([made.status, again.status, again.text === made.text, replayed(again)]).toEqual([201, 201, true, true])
      expect(refusalOf(other)).toEqual({ status: 409, code: 'IDEMPOTENCY_KEY_REUSED' })
      expect(rows).toHaveLength(1)
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  })
})
