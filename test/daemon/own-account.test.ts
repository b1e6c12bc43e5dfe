import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { setServerAccess } from '../../src/shared/api/access.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import * as api from '../../src/shared/api/profile.ts'
import { getUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, keyOf, openSetUpPanel, PASSWORD, person, refusal, serverOf } from './accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
let number = 0
beforeAll(async () => {
  panel = await openSetUpPanel()
})
afterAll(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const somebody = () => person(panel, `person-${++number}`, [])

const PICTURES = {
  png: '\x89PNG\r\n\x1a\n...',
  jpeg: '\xff\xd8\xff\xe0...',
  gif: 'GIF89a...',
  webp: 'RIFF\x10\x00\x00\x00WEBPVP8 ',
}

function upload(client: Client, bytes: Uint8Array) {
  const content = (async function* () {
    yield bytes
  })()
  return client.call(api.setAvatar, { body: { fileName: '../../me.svg', contentType: 'image/svg+xml', content } })
}

async function read(content: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for await (const piece of content) pieces.push(piece)
  return Buffer.concat(pieces)
}

describe('a profile', () => {
  it('shows the account with what only its owner sees', async () => {
    const ann = await somebody()
    const email = `person-${number}@example.org`
    await refusal(panel.client(undefined, '192.0.2.77').call(login, { body: { email, password: 'wrong' } }))
    expect(await ann.call(api.getProfile)).toMatchObject({
      id: ann.id,
      email,
      emailVerified: true,
      hasPassword: true,
      twoFactorEnabled: false,
      failedLoginAttempts: 1,
      lastFailedLogin: expect.stringMatching(/Z$/),
      lastSuccessfulLogin: expect.stringMatching(/Z$/),
      preferences: {},
      image: null,
    })
  })

  it('is changed by name; an edit that changes nothing is not written', async () => {
    const ann = await somebody()
    const username = `renamed-${number}`
    const body = { username, firstName: ' Ann ', lastName: null }
    expect(await ann.call(api.updateProfile, { body })).toEqual({
      id: ann.id,
      username,
      firstName: 'Ann',
      lastName: null,
    })
    await ann.call(api.updateProfile, { body })
    const rows = await ann.call(api.listOwnAuditLogs, { query: {} })
    expect(rows.map(({ action }) => action)).toEqual(['user.update', 'auth.login'])
    expect(rows[0]?.details).toMatchObject({ firstName: { before: null, after: 'Ann' } })
    expect(await codeOf(ann.call(api.updateProfile, { body: { username: 'ROOT' } }))).toBe('USER_EXISTS')
    expect(await codeOf(ann.call(api.updateProfile, { body: {} }))).toBe('VALIDATION_ERROR')
  })

  it('keeps preferences, merged by name, up to 16 KiB', async () => {
    const ann = await somebody()
    const set = (body: Record<string, string | number | boolean | null>) => ann.call(api.updatePreferences, { body })
    expect(await set({ theme: 'dark', rows: 20 })).toEqual({ theme: 'dark', rows: 20 })
    expect(await set({ rows: null, beta: true })).toEqual({ theme: 'dark', beta: true })
    const large = Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`name-${i}`, 'x'.repeat(4000)]))
    expect(await codeOf(set(large))).toBe('VALIDATION_ERROR')
    expect((await ann.call(api.getProfile)).preferences).toEqual({ theme: 'dark', beta: true })
  })

  it('cannot be changed or looked through by a key with fewer rights than its user', async () => {
    const weak = await keyOf(panel, panel.admin, ['server.read'])
    for (const call of [
      () => weak.call(api.updateProfile, { body: { firstName: 'Eve' } }),
      () => weak.call(api.updatePreferences, { body: { a: 1 } }),
      () => weak.call(api.listOwnAuditLogs, { query: {} }),
      () => weak.call(api.listOwnApiKeys, { query: {} }),
      () => weak.call(api.deleteAvatar),
      () => weak.file(api.exportProfile),
    ]) {
      expect(await codeOf(call())).toBe('PERMISSION_DENIED')
    }
  })
})

describe('a picture', () => {
  it.each(Object.entries(PICTURES))(
    'of kind %s is told by its first bytes, whatever it is called',
    async (kind, text) => {
      const ann = await somebody()
      const bytes = Buffer.from(text, 'latin1')
      const { image } = await upload(ann, bytes)
      expect(image).toMatch(new RegExp(`^/api/users/${ann.id}/avatar\\?v=[0-9a-f]{16}$`))
      expect((await ann.call(getMe)).image).toBe(image)
      const response = await fetch(`${panel.url}${image}`, { headers: { authorization: `Bearer ${ann.token}` } })
      expect([response.status, response.headers.get('content-type')]).toEqual([200, `image/${kind}`])
      expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes)
    },
  )

  it('is replaced, shown to others, removed', async () => {
    const ann = await somebody()
    const first = await upload(ann, Buffer.from(PICTURES.gif, 'latin1'))
    expect(await upload(ann, Buffer.from(PICTURES.gif, 'latin1'))).toEqual(first)
    expect(await upload(ann, Buffer.from(PICTURES.png, 'latin1'))).not.toEqual(first)
    const other = await somebody()
    const userId = api.getAvatar.params.userId.parse(ann.id)
    expect((await read(await other.file(api.getAvatar, { params: { userId } }))).toString('latin1')).toBe(PICTURES.png)
    expect((await fetch(`${panel.url}${first.image}`)).status).toBe(401)
    await ann.call(api.deleteAvatar)
    expect(await codeOf(other.file(api.getAvatar, { params: { userId } }))).toBe('NOT_FOUND')
    expect((await ann.call(getMe)).image).toBeNull()
    const changes = await ann.call(api.listOwnAuditLogs, { query: {} })
    expect(changes.filter(({ action }) => action === 'user.avatar_update')).toHaveLength(3)
  })

  it('is taken as it stands, too, with or without its length', async () => {
    const ann = await somebody()
    const send = async (body: RequestInit['body'], headers: Record<string, string> = {}) => {
      const type = { authorization: `Bearer ${ann.token}`, 'content-type': 'image/png', ...headers }
      const init = { method: 'POST', headers: type, body, duplex: 'half' }
      const response = await fetch(`${panel.url}/api/auth/profile/avatar`, init as RequestInit)
      return [response.status, await response.text()] as const
    }
    const picture = Buffer.from(PICTURES.gif, 'latin1')
    const [status, text] = await send(picture)
    expect(status).toBe(200)
    const { image } = JSON.parse(text).data
    const shown = await fetch(`${panel.url}${image}`, { headers: { authorization: `Bearer ${ann.token}` } })
    expect(shown.headers.get('content-type')).toBe('image/gif') // by what it is, not by what it is called
    expect(Buffer.from(await shown.arrayBuffer())).toEqual(picture)
    const pieces = (bytes: Uint8Array) => ReadableStream.from([bytes.subarray(0, 5), bytes.subarray(5)])
    expect((await send(pieces(Buffer.from(PICTURES.png, 'latin1'))))[0]).toBe(200)
    expect((await send(Buffer.from('<svg/>')))[0]).toBe(400)
    const other = await somebody()
    const encoded = await send(picture, { authorization: `Bearer ${other.token}`, 'content-encoding': 'gzip' })
    expect(encoded).toEqual([400, expect.stringContaining('content-encoding')])
    const large = Buffer.concat([Buffer.from(PICTURES.png, 'latin1'), Buffer.alloc(2 * 1024 * 1024)])
    for (const body of [large, pieces(large)]) expect((await send(body))[0]).toBe(413)
  })

  it('is refused when it is none, too large, or no form at all', async () => {
    const ann = await somebody()
    expect(await codeOf(upload(ann, Buffer.from('<svg onload="alert(1)"/>')))).toBe('VALIDATION_ERROR')
    expect(await codeOf(upload(ann, Buffer.alloc(0)))).toBe('VALIDATION_ERROR')
    const large = Buffer.concat([Buffer.from(PICTURES.png, 'latin1'), Buffer.alloc(2 * 1024 * 1024)])
    expect(await codeOf(upload(ann, large))).toBe('PAYLOAD_TOO_LARGE')
    const most = large.subarray(0, 2 * 1024 * 1024)
    expect(await upload(ann, most)).toHaveProperty('image')
    const bodies: [string, string][] = [
      ['application/json', '{}'],
      ['multipart/form-data', 'x'],
      [
        'multipart/form-data; boundary=x',
        '--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nGIF8',
      ],
      ['multipart/form-data; boundary=x', '--x\r\ncontent-disposition: form-data; name="other"\r\n\r\n1\r\n--x--\r\n'],
    ]
    for (const [type, body] of bodies) {
      const headers = { authorization: `Bearer ${ann.token}`, 'content-type': type }
      const response = await fetch(`${panel.url}/api/auth/profile/avatar`, { method: 'POST', headers, body })
      expect([type, body, response.status]).toEqual([type, body, 400])
    }
  })

  it('obeys a lower limit of uploads at once', async () => {
    const ann = await somebody()
    const set = (mb: number) => panel.db.write((tx) => panel.deps.settings.set(tx, 'files.maxUploadMb', mb))
    const bytes = Buffer.concat([Buffer.from(PICTURES.png, 'latin1'), Buffer.alloc(1024 * 1024)])
    await set(1)
    const refused = await refusal(upload(ann, bytes))
    await set(100)
    expect([refused.code, refused.meta['maxBytes']]).toEqual(['PAYLOAD_TOO_LARGE', 1024 * 1024])
    expect(await upload(ann, bytes)).toHaveProperty('image')
  })
})

describe('one’s own records', () => {
  it('are only one’s own', async () => {
    const [ann, bob] = [await person(panel, 'ann-keys', ['apikey.manage']), await somebody()]
    const key = await keyOf(panel, ann, [])
    expect((await ann.call(api.listOwnApiKeys, { query: {} })).map(({ id }) => id)).toEqual([key.id])
    expect(await bob.call(api.listOwnApiKeys, { query: {} })).toEqual([])
    const { data, pagination } = await ann.page(api.listOwnAuditLogs, { query: { limit: '1' } })
    expect([data[0]?.action, pagination.total]).toEqual(['api_key.create', 2])
  })

  it('are exported as one JSON file without any secret', async () => {
    const ann = await somebody()
    const serverId = await serverOf(panel, ann.id)
    const shared = await serverOf(panel, (await somebody()).id)
    await panel.admin.call(setServerAccess, {
      params: { serverId: setServerAccess.params.serverId.parse(shared) },
      body: { targetUserId: getUser.params.userId.parse(ann.id), permissions: ['server.read'] },
    })
    const text = (await read(await ann.file(api.exportProfile))).toString()
    const exported = z.record(z.string(), z.unknown()).parse(JSON.parse(text))
    expect(exported).toMatchObject({
      user: { id: ann.id, hasPassword: true },
      sessions: [{ ipAddress: '192.0.2.1' }],
      apiKeys: [],
      auditLogs: [{ action: 'auth.login' }],
      roles: [{ id: ann.roleId }],
      serverAccess: [
        { id: serverId, relation: 'owner' },
        { id: shared, relation: 'member', permissions: ['server.read'] },
      ],
    })
    expect(text).not.toMatch(/argon2|secretHash|pst_|passwordHash/)
  })
})

describe('deleting one’s account', () => {
  const remove = (client: Client, currentPassword = PASSWORD) =>
    client.call(api.deleteAccount, { body: { confirm: 'DELETE', currentPassword } })

  it('takes the word and the password, and ends everything', async () => {
    const ann = await somebody()
    const again = await panel.client().call(login, { body: { email: `person-${number}`, password: PASSWORD } })
    expect(await codeOf(remove(ann, 'Wrong-horse-11'))).toBe('INVALID_CREDENTIALS')
    await remove(ann)
    for (const client of [ann, panel.client(again.token)])
      expect(await codeOf(client.call(getMe))).toBe('UNAUTHENTICATED')
    const userId = getUser.params.userId.parse(ann.id)
    expect(await codeOf(panel.admin.call(getUser, { params: { userId } }))).toBe('USER_NOT_FOUND')
    const events = await panel.db.read.selectFrom('event').select('data').where('type', '=', 'user_deleted').execute()
    expect(events.map(({ data }) => JSON.parse(data))).toContainEqual(expect.objectContaining({ userId: ann.id }))
  })

  it('is refused to who owns servers, and names them', async () => {
    const ann = await somebody()
    const serverId = await serverOf(panel, ann.id)
    const { code, meta } = await refusal(remove(ann))
    expect([code, meta['ownedServers']]).toEqual(['USER_OWNS_SERVERS', [{ id: serverId, name: 's' }]])
    expect(await ann.call(getMe)).toMatchObject({ id: ann.id })
  })

  it('is refused to the last administrator who is not banned', async () => {
    const second = await person(panel, 'second-admin', ['*'])
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banned: 1 }).where('id', '=', second.id).execute()
    })
    expect(await codeOf(remove(panel.admin))).toBe('LAST_ADMIN')
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banned: 0 }).where('id', '=', second.id).execute()
      tx.onCommit(() => panel.credentials.changed())
    })
    await remove(second)
  })
})
