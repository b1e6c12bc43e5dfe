import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { endpoints, streams } from '../../src/shared/endpoints.ts'
import { type Endpoint, isDeclared, type StreamEndpoint } from '../../src/shared/kernel/contract.ts'
import { ERRORS, isErrorCode } from '../../src/shared/kernel/errors.ts'
import { PERMISSIONS } from '../../src/shared/kernel/permissions.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { skippedUnless } from '../skips.ts'
import { eachCase, LOOP } from './each-case.ts'
import { callEndpoint, methodOf, type Parts, type Reply, refusalOf } from './http-call.ts'
import { NOT_BUILT, WALKS } from './spec-guards.ts'
import { fixtureOf, keptTable, type SpecRow, statusesOf, tableOf } from './spec-table.ts'
import { buildWorld, keyWith, PASSWORD, paramsOf, unknownParams, type World } from './world.ts'

const kept = keptTable()
const all = [...endpoints, ...streams]
const nameOf = ({ method, path }: SpecRow): string => `${method} ${path}`
const unbuilt = Object.values(NOT_BUILT).flat()

/** A row with the endpoint that stands for it. */
interface Built {
  readonly id: string
  readonly row: SpecRow
  readonly endpoint: Endpoint | StreamEndpoint
}

const built: readonly Built[] = kept.rows.flatMap((row) => {
  const shape = (path: string): string => path.replace(/:\w+|\{\w+\}/g, '{}')
  const endpoint = all.find((one) => methodOf(one) === row.method && shape(one.path) === shape(row.path))
  return endpoint === undefined ? [] : [{ id: nameOf(row), row, endpoint }]
})

/** Codes that every row of its kind can answer; api.md does not repeat them. */
const IMPLIED = ['PERMISSION_DENIED', 'VALIDATION_ERROR', 'INTERNAL_ERROR']

describe('the kept table', () => {
  const shared = process.env['PANEL_TEST_SHARED'] ?? join(import.meta.dirname, '../../../shared')
  const [spec, design] = [join(shared, 'spec.md'), join(shared, 'design/api.md')]

  const isHere = existsSync(spec) && existsSync(design)
  it.skipIf(!isHere)(
    `is that of the specification${skippedUnless(isHere, 'the specification, see PANEL_TEST_SHARED')}`,
    () => {
      const [table, statuses] = [tableOf(readFileSync(spec, 'utf8')), statusesOf(readFileSync(design, 'utf8'))]
      expect(fixtureOf(kept, kept.statuses)).toBe(fixtureOf(table, statuses))
    },
  )

  it('has all rows and codes, each with a guard and a status', () => {
    expect([kept.rows.length, kept.codes.length]).toEqual([64, 21])
    expect(kept.rows.map(nameOf).sort()).toEqual(Object.keys(WALKS).sort())
    for (const { codes } of kept.rows) for (const code of codes) expect([...kept.codes, 'AUTH_EXPIRED']).toContain(code)
    for (const status of kept.statuses.values()) expect(status).toBeGreaterThanOrEqual(400)
  })
})

describe('the rows', () => {
  it('are built, or stand on the list of those that are not', () => {
    const there = new Set(built.map(({ id }) => id))
    expect(kept.rows.map(nameOf).filter((name) => !there.has(name) && !unbuilt.includes(name))).toEqual([])
    expect(unbuilt.filter((name) => there.has(name) || !kept.rows.some((row) => nameOf(row) === name))).toEqual([])
  })

  it('have codes with the statuses of api.md, except those of rows that are not built', () => {
    const owed = new Set(kept.rows.filter((row) => unbuilt.includes(nameOf(row))).flatMap(({ codes }) => codes))
    for (const [code, status] of kept.statuses) {
      if (isErrorCode(code)) expect([code, ERRORS[code].status]).toEqual([code, status])
      else expect([...owed], `${code} is in no table of ours`).toContain(code)
    }
  })
})

let ahead = 0
let panel: TestPanel
let world: World
const keys = new Map<string, Promise<string>>()
beforeAll(async () => {
  panel = await startPanel({ clock: { ...systemClock, nowMs: () => systemClock.nowMs() + ahead } })
  world = await buildWorld(panel)
})
afterAll(() => panel.close())

/** A key of the administrator with exactly these permissions, made once. */
function keyOf(permissions: readonly string[]): Promise<string> {
  const name = permissions.join()
  const token = keys.get(name) ?? keyWith(panel, permissions)
  keys.set(name, token)
  return token
}

describe('each row that is built', () => {
  it('is for those whom its guard lets in', LOOP, () =>
    eachCase(built, async (one) => {
      const { endpoint } = one
      const { guard } = walkOf(one)
      const anonymous = await ask(endpoint, partsOf(one), undefined)
      if (guard === 'public') return expect(anonymous.status).toBe(200)
      expect(refusalOf(anonymous)).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
      if (guard === 'session') return expect((await ask(endpoint, partsOf(one), world.powerless)).status).toBe(200)
      const denied = { status: 403, code: 'PERMISSION_DENIED' }
      const opens = (name: string): boolean =>
        guard.some((needed) => needed === name) ||
        name === '*' ||
        (name === 'admin.write' && guard.includes('admin.read'))
      const others = PERMISSIONS.filter((name) => !opens(name))
      const refused = await ask(endpoint, partsOf(one), await keyOf(others))
      expect(refusalOf(refused), refused.text).toEqual(denied)
      isRefusal(refused)
      for (const permission of guard) {
        const admitted = await ask(endpoint, partsOf(one), await keyOf([permission]))
        expect([401, 403], `${permission}: ${admitted.text}`).not.toContain(admitted.status)
      }
    }),
  )

  it('answers in the envelope', LOOP, () =>
    eachCase(built, async (one) => {
      const { endpoint } = one
      const reply = await ask(endpoint, partsOf(one), panel.adminToken)
      if (isWrite(one) && reply.status >= 400) return isRefusal(reply)
      expect(reply.status, reply.text).toBe(endpoint.kind === 'stream' ? 200 : endpoint.status)
      if (endpoint.kind === 'stream') return expect(reply.headers.get('content-type')).toContain('text/event-stream')
      if (endpoint.answers === 'file') return expect(reply.headers.get('content-disposition')).toContain('attachment')
      expect(reply.json).toMatchObject({ success: true })
      expect(reply.json).toHaveProperty('data')
    }),
  )

  it('declares the codes that are listed for it', LOOP, () =>
    eachCase(built, ({ id, row, endpoint }) => {
      const listed = row.codes.filter((code) => !IMPLIED.includes(code))
      const elsewhere = OF_ANOTHER_ROW[id] ?? []
      const declared: readonly string[] = endpoint.errors
      expect(listed.filter((code) => !declared.includes(code) && !elsewhere.includes(code))).toEqual([])
    }),
  )

  it('refuses what is not valid', LOOP, () =>
    eachCase(
      built.filter(({ row }) => row.codes.includes('VALIDATION_ERROR')),
      async (one) => {
        const { badQuery } = walkOf(one)
        const parts = partsOf(one)
        const junk = badQuery === undefined ? { ...parts, body: [] } : { ...parts, query: badQuery }
        const reply = await ask(one.endpoint, junk, panel.adminToken)
        expect(refusalOf(reply), reply.text).toEqual({ status: 400, code: 'VALIDATION_ERROR' })
        isRefusal(reply)
      },
    ),
  )
})

const walkOf = ({ id }: Built) => WALKS[id] ?? { guard: [] }
const isWrite = ({ endpoint }: Built): boolean => endpoint.kind === 'endpoint' && endpoint.method !== 'GET'

/** What is asked of a row: rows of the administration about a thing that is not there, those of a server about one. */
function partsOf(one: Built): Parts {
  const { endpoint } = one
  const params = isWrite(one) && !('serverId' in endpoint.params) ? unknownParams(endpoint) : paramsOf(world, endpoint)
  const hasBody = endpoint.kind === 'endpoint' && isDeclared(endpoint.body)
  return { params, ...(hasBody ? { body: walkOf(one).body ?? [] } : {}) }
}

/** Codes that spec.md lists with a row and that belong to one below it: a list names no single key. */
const OF_ANOTHER_ROW: Readonly<Record<string, readonly string[]>> = {
  'GET /api/admin/api-keys': ['API_KEY_NOT_FOUND'],
}

describe('codes by a cause of their own', () => {
  it('a key that is not there is API_KEY_NOT_FOUND', async () => {
    const endpoint = all.find(({ id }) => id === 'api_keys.get') ?? fail()
    const reply = await ask(endpoint, { params: { keyId: 'nobody_has_this' } }, panel.adminToken)
    expect(refusalOf(reply)).toEqual({ status: 404, code: 'API_KEY_NOT_FOUND' })
  })

  it('a key that has expired is AUTH_EXPIRED at the admin events, before any data', async () => {
    const expiresAt = new Date(systemClock.nowMs() + 60_000).toISOString()
    const { key } = await panel.client.call(createApiKey, {
      body: { name: 'short', permissions: ['admin.read'], expiresAt },
    })
    ahead = 120_000
    try {
      const reply = await ask(all.find(({ id }) => id === 'admin.events') ?? fail(), {}, key)
      expect(refusalOf(reply)).toEqual({ status: 401, code: 'AUTH_EXPIRED' })
      isRefusal(reply)
    } finally {
      ahead = 0
    }
  })

  const broken = built.filter(({ row }) => row.codes.includes('INTERNAL_ERROR') && row.path.includes('/api-keys'))
  it.each(broken)('$id is INTERNAL_ERROR when its table is gone, and says nothing of it', async ({ endpoint }) => {
    const token = await administrator()
    const { path } = await panel.client.call(getDbStatus)
    const file = await Connection.open(path, 'existing')
    try {
      await file.exec('alter table api_key rename to taken_away')
      const body =
        endpoint.kind === 'endpoint' && endpoint.method === 'POST' ? { name: 'x', permissions: [] } : undefined
      const reply = await ask(endpoint, body === undefined ? {} : { body }, token)
      expect(refusalOf(reply), reply.text).toEqual({ status: 500, code: 'INTERNAL_ERROR' })
      expect(reply.text).not.toContain('api_key')
      isRefusal(reply)
    } finally {
      await file.exec('alter table taken_away rename to api_key')
      await file.close()
    }
  })
})

/** A session of somebody who may everything. */
async function administrator(): Promise<string> {
  const email = `admin-${world.next()}@example.org`
  const body = {
    email,
    username: email.split('@')[0] ?? '',
    password: PASSWORD,
    roleIds: [world.administratorId as never],
  }
  await panel.client.call(createUser, { body })
  return (await panel.as(undefined).call(login, { body: { email, password: PASSWORD } })).token
}

/** Asks; of a stream that opens only the head is waited for. */
async function ask(endpoint: Endpoint | StreamEndpoint, parts: Parts, token: string | undefined): Promise<Reply> {
  const credential = token === undefined ? {} : { token }
  return callEndpoint(panel.url, endpoint, parts, credential)
}

function isRefusal({ json, text }: Reply): void {
  expect(json, text).toMatchObject({ success: false, error: expect.any(String), code: expect.any(String) })
  expect(Object.keys(json ?? {}).sort()).toEqual(expect.arrayContaining(['code', 'error', 'requestId', 'success']))
}

function fail(): never {
  throw new Error('the endpoint is not there')
}
