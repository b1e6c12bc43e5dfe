import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deleteApiKey } from '../../src/shared/api/api-keys.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { type Access, type Endpoint, isDeclared, type StreamEndpoint } from '../../src/shared/kernel/contract.ts'
import { PERMISSIONS, type Permission } from '../../src/shared/kernel/permissions.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { eachCase, LOOP } from './each-case.ts'
import { callEndpoint, type Parts, refusalOf } from './http-call.ts'
import { buildWorld, keyWith, paramsOf, unknownParams, type World } from './world.ts'

type Any = Endpoint | StreamEndpoint
type Guarded = Exclude<Access, string>

const all: readonly Any[] = [...endpoints, ...streams]
const closed = all.filter(({ access }) => access !== 'public')
const guarded = all.flatMap((one) => (typeof one.access === 'string' ? [] : [{ id: one.id, one, access: one.access }]))

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel()
  world = await buildWorld(panel)
})
afterAll(() => panel.close())

const keys = new Map<string, Promise<string>>()

/** A key with exactly these permissions, made once. */
function key(permissions: readonly string[]): Promise<string> {
  const name = permissions.join()
  const made = keys.get(name) ?? keyWith(panel, permissions)
  keys.set(name, made)
  return made
}

/** Input that passes the guard and nothing behind it: unknown ids, and a body that no schema takes. */
function harmless(one: Any): Parts {
  const takesBody = one.kind === 'endpoint' && isDeclared(one.body)
  return { params: unknownParams(one), ...(takesBody ? { body: ['not an object'] } : {}) }
}

describe('nobody', () => {
  it('is refused by every endpoint with 401', LOOP, () =>
    eachCase(closed, async (one) => {
      for (const parts of [{ params: paramsOf(world, one) }, { params: unknownParams(one) }]) {
        const reply = await callEndpoint(panel.url, one, parts)
        expect(refusalOf(reply)).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
      }
    }),
  )

  it('is refused by every endpoint with a credential that is none', LOOP, async () => {
    const tokens = [
      'x',
      `pak_${'0'.repeat(26)}_${'A'.repeat(43)}`,
      `${panel.adminToken.slice(0, -1)}~`,
      `pnk${panel.adminToken.slice(3)}`,
    ]
    await eachCase(closed, async (one) => {
      for (const token of tokens) {
        const reply = await callEndpoint(panel.url, one, { params: paramsOf(world, one) }, { token })
        expect(refusalOf(reply)).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
      }
    })
  })

  it('is not let in by other ways to hand a token over', async () => {
    const secret = panel.adminToken
    const ways: Record<string, string>[] = [
      { 'x-api-key': secret },
      { authorization: `Basic ${secret}` },
      { authorization: secret },
      { authorization: `Bearer ${secret} ${secret}` },
      { cookie: 'panel_session=' },
    ]
    for (const headers of ways) {
      const response = await fetch(`${panel.url}/api/servers`, { headers })
      expect([JSON.stringify(Object.keys(headers)), response.status]).toEqual([
        JSON.stringify(Object.keys(headers)),
        401,
      ])
    }
    expect((await fetch(`${panel.url}/api/servers?token=${secret}&apiKey=${secret}`)).status).toBe(401)
  })
})

describe('somebody without any permission', () => {
  it('is refused by every endpoint with 403, whether or not the resource exists', LOOP, () =>
    eachCase(guarded, async ({ one }) => {
      const replies = []
      for (const params of [paramsOf(world, one), unknownParams(one)]) {
        replies.push(await callEndpoint(panel.url, one, { ...harmless(one), params }, { token: world.powerless }))
      }
      const [there, notThere] = replies.map(({ status, json }) => ({ status, ...json, requestId: '' }))
      expect(there).toMatchObject({ status: 403, code: 'PERMISSION_DENIED', meta: { missing: expect.any(Array) } })
      expect(there).toEqual(notThere)
    }),
  )

  const deeds = guarded.filter(
    ({ one, access }) => 'serverId' in one.params && smallestGaps(access).flat().join() !== 'server.read',
  )

  it('is refused by all deeds on all-servers, which everybody may read and nobody may touch', LOOP, () =>
    eachCase(deeds, async ({ one }) => {
      const params = { ...paramsOf(world, one), serverId: 'all-servers' }
      const reply = await callEndpoint(panel.url, one, { ...harmless(one), params }, { token: world.powerless })
      expect(refusalOf(reply)).toEqual({ status: 403, code: 'PERMISSION_DENIED' })
    }),
  )
})

describe('a key', () => {
  it('with only what an endpoint asks for passes its guard', LOOP, () =>
    eachCase(guarded, async ({ one, access }) => {
      for (const enough of smallestSets(access)) {
        const token = await key(enough)
        const reply = await callEndpoint(panel.url, one, harmless(one), { token })
        expect([401, 403], `${enough}: ${reply.text}`).not.toContain(reply.status)
        expect(reply.status).not.toBe(500)
      }
    }),
  )

  it('with everything but what an endpoint asks for is refused', LOOP, () =>
    eachCase(guarded, async ({ one, access }) => {
      for (const lacking of smallestGaps(access)) {
        const rest = PERMISSIONS.filter((name) => name !== '*' && !lacking.includes(name))
        const token = await key(lacking.includes('admin.read') ? rest.filter((name) => name !== 'admin.write') : rest)
        const reply = await callEndpoint(panel.url, one, { ...harmless(one), params: paramsOf(world, one) }, { token })
        expect(refusalOf(reply)).toEqual({ status: 403, code: 'PERMISSION_DENIED' })
      }
    }),
  )

  const near = guarded.filter(({ access }) => 'server' in access || 'node' in access)

  it('for one resource passes the guards there and nowhere else', LOOP, () =>
    eachCase(near, async ({ one, access }) => {
      const mine = 'server' in access ? (world.ids['serverId'] ?? '') : (world.ids['nodeId'] ?? '')
      const [enough = []] = smallestSets(access)
      const token = await key(enough.map((name) => `${name}:${mine}`))
      const elsewhere = await callEndpoint(panel.url, one, harmless(one), { token })
      expect(refusalOf(elsewhere)).toEqual({ status: 403, code: 'PERMISSION_DENIED' })
      if (one.kind === 'endpoint' && one.method !== 'GET' && !isDeclared(one.body)) return // it would really be done
      const there = await callEndpoint(panel.url, one, { ...harmless(one), params: paramsOf(world, one) }, { token })
      expect([401, 403], there.text).not.toContain(there.status)
    }),
  )

  it('is refused everywhere from the moment it is deleted', LOOP, async () => {
    const made = await keyWith(panel, ['*'])
    const { credential } = await panel.as(made).call(getMe)
    await world.admin.call(deleteApiKey, { params: { keyId: credential.id } })
    await eachCase(closed, async (one) => {
      const reply = await callEndpoint(panel.url, one, { params: paramsOf(world, one) }, { token: made })
      expect(refusalOf(reply)).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
    })
  })
})

describe('the order of refusals', () => {
  const withBody = guarded.flatMap(({ id, one }) =>
    one.kind === 'endpoint' && isDeclared(one.body) && one.accepts !== 'stream' ? [{ id, one }] : [],
  )
  const large = `"${'x'.repeat(1024 * 1024 + 10)}"`

  it('of every endpoint: who, then may they, then how much, then what', LOOP, () =>
    eachCase(withBody, async ({ one }) => {
      const params = paramsOf(world, one)
      const cases = [
        { token: undefined, body: '{broken', status: 401, code: 'UNAUTHENTICATED' },
        { token: undefined, body: large, status: 401, code: 'UNAUTHENTICATED' },
        { token: world.powerless, body: '{broken', status: 403, code: 'PERMISSION_DENIED' },
        { token: world.powerless, body: large, status: 403, code: 'PERMISSION_DENIED' },
        // Endpoints of files take more of it; their own limit is in test/daemon/servers/file-operations.test.ts.
        ...(one.bodyLimit > large.length
          ? []
          : [{ token: panel.adminToken, body: large, status: 413, code: 'PAYLOAD_TOO_LARGE' }]),
        { token: panel.adminToken, body: '{broken', status: 400, code: 'VALIDATION_ERROR' },
      ]
      for (const { token, body, status, code } of cases) {
        const reply = await callEndpoint(panel.url, one, { params, body }, token === undefined ? {} : { token })
        expect(refusalOf(reply)).toEqual({ status, code })
        expect(reply.json?.requestId).toBe(reply.headers.get('x-request-id'))
      }
      const unknown = await callEndpoint(panel.url, one, harmless(one), { token: panel.adminToken })
      expect(refusalOf(unknown)).toEqual({ status: 400, code: 'VALIDATION_ERROR' })
    }),
  )
})

/** Each smallest set of permissions that passes the guard. */
function smallestSets(access: Guarded): readonly (readonly Permission[])[] {
  if ('panel' in access) return [[access.panel]]
  if ('node' in access) return [[access.node]]
  if ('anyOf' in access) return access.anyOf.map((one) => [one])
  if ('server' in access) return [access.server]
  return access.serverByBody.possible.map((one) => [one])
}

/** Each smallest set whose absence closes it. */
function smallestGaps(access: Guarded): readonly (readonly Permission[])[] {
  if ('panel' in access) return [[access.panel]]
  if ('node' in access) return [[access.node]]
  if ('anyOf' in access) return [access.anyOf]
  if ('server' in access) return access.server.map((one) => [one])
  return [access.serverByBody.possible]
}
