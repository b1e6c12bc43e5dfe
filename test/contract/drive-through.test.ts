import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { endpoints } from '../../src/shared/endpoints.ts'
import { type Endpoint, isDeclared } from '../../src/shared/kernel/contract.ts'
import { Pagination } from '../../src/shared/kernel/page.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ApiDocument } from './api-document.ts'
import { eachCase, LOOP } from './each-case.ts'
import { callEndpoint, isObject, type Reply, refusalOf } from './http-call.ts'
import { VALID, type Valid, validOf } from './inputs.ts'
import { buildWorld, type World } from './world.ts'

/** Why a second call with the same key is not answered like the first. */
const CALLER_IS_GONE = new Set(['auth.logout', 'auth.sign_out', 'profile.delete'])

let panel: TestPanel
let world: World
let document: ApiDocument
beforeAll(async () => {
  process.env['PANEL_PULL__ALLOWED_RANGES'] = '127.0.0.0/8' // files are fetched from the panel itself
  process.env['PANEL_PULL__ALLOWED_PORTS'] = '1024-65535'
  panel = await startPanel({ agent: true })
  world = await buildWorld(panel)
  document = await ApiDocument.of(panel.url)
})
afterAll(() => panel.close())

const edits = endpoints.filter(
  ({ method, audit, body, accepts }) =>
    ['PUT', 'PATCH'].includes(method) && 'action' in audit && isDeclared(body) && accepts !== 'stream',
)

/** Fields that name what is edited instead of a value of it: their rows name it as they do. */
const NAMING: Readonly<Record<string, readonly string[]>> = { 'backup_stores.set_default': ['scope', 'id'] }

/** What the audit log shows of a field whose name says that it is secret. */
const SECRET = '********'

describe('an edit', () => {
  it('leaves what was and what is, by the names of the API', LOOP, () =>
    eachCase(edits, async (endpoint) => {
      const valid: Valid = (await VALID[endpoint.id]?.(world)) ?? {}
      const first = await call(endpoint, valid, 'edit')
      expect(first.status, first.text).toBe(endpoint.status)
      const query = { requestId: `edit-${endpoint.id}` }
      const [row] = await panel.client.call(listAuditLogs, { query })
      for (const [name, value] of Object.entries(valid.body ?? {})) {
        const change = row?.details?.[name]
        if (NAMING[endpoint.id]?.includes(name)) {
          expect(change).toBe(value)
          continue
        }
        const isSecret = isObject(change) && change['after'] === SECRET
        expect(change, `${endpoint.id}: ${JSON.stringify(row?.details)}`).toMatchObject({
          after: isSecret ? SECRET : value,
        })
        expect(change).toHaveProperty('before')
      }
    }),
  )
})

// What agents call needs the ticket of a transfer: test/daemon/servers/transfers.test.ts.
const cases = endpoints.filter(({ access }) => access !== 'agent').map((endpoint) => ({ id: endpoint.id, endpoint }))

describe('the table of valid requests', () => {
  it('has none for anything that is no endpoint', () => {
    expect(Object.keys(VALID).filter((id) => !cases.some((one) => one.id === id))).toEqual([])
  })
})

/** What has no effect on the case of another endpoint: reads, and orders to servers and files that were made for them. */
function isApart({ id, endpoint }: { readonly id: string; readonly endpoint: Endpoint }): boolean {
  return /^(servers|console|files)\./.test(id) || (endpoint.method === 'GET' && 'none' in endpoint.audit)
}

describe('a valid request', () => {
  it('for reads and orders is answered by its contract and leaves the audit rows that it names', LOOP, () =>
    eachCase(cases.filter(isApart), drive),
  )

  // Settings, mails and accounts are shared with other cases: one after the other.
  it.each(cases.filter((one) => !isApart(one)))(
    'of $id is answered by its contract and leaves the audit rows that it names',
    drive,
  )
})

async function drive({ endpoint }: { readonly endpoint: Endpoint }): Promise<void> {
  const valid = await validOf(world, endpoint.id)
  if (valid === undefined)
    throw new Error(`no valid request of ${endpoint.id} follows from its contract: add one to the table`)
  if (endpoint.accepts !== 'stream') expect(document.ofBody(endpoint, valid.body)).toEqual([])
  try {
    const first = await call(endpoint, valid, 'first')
    expect(first.status, first.text).toBe(endpoint.status)
    fitsContract(endpoint, first)
    expect(await auditActions(endpoint, valid, 'first')).toEqual(declaredActions(endpoint))
    if (endpoint.method === 'POST' && endpoint.accepts === 'json') await repeats(endpoint, valid, first)
  } finally {
    await valid.at?.close()
    await valid.after?.()
  }
}

/** A POST with an Idempotency-Key is done once, and its repetition answers the same. */
async function repeats(endpoint: Endpoint, valid: Valid, first: Reply): Promise<void> {
  const again = await call(endpoint, valid, 'again')
  if (CALLER_IS_GONE.has(endpoint.id)) {
    expect(refusalOf(again)).toEqual({ status: 401, code: 'UNAUTHENTICATED' })
    return
  }
  expect([again.status, again.text]).toEqual([first.status, first.text])
  if ('none' in endpoint.audit) return // what has written nothing may be done again
  expect([first.headers.get('idempotency-replayed'), again.headers.get('idempotency-replayed')]).toEqual([null, 'true'])
  expect(await auditActions(endpoint, valid, 'again')).toEqual([])
  if (!isDeclared(endpoint.body)) return
  expect(valid.otherBody, `${endpoint.id} needs another body in the table`).toBeDefined()
  const other = await call(endpoint, { ...valid, body: valid.otherBody }, 'other')
  expect(refusalOf(other)).toEqual({ status: 409, code: 'IDEMPOTENCY_KEY_REUSED' })
  expect(await auditActions(endpoint, valid, 'other')).toEqual([])
}

/** Sends it; `name` marks the request id, by which its audit rows are found. */
function call(endpoint: Endpoint, valid: Valid, name: string): Promise<Reply> {
  const token = valid.token === undefined ? panel.adminToken : (valid.token ?? undefined)
  const headers = {
    'x-request-id': `${name}-${endpoint.id}`,
    ...(endpoint.method === 'POST' ? { 'idempotency-key': `key of ${endpoint.id}` } : {}),
    ...valid.headers,
  }
  return callEndpoint(valid.at?.url ?? panel.url, endpoint, valid, { token, headers })
}

function fitsContract(endpoint: Endpoint, reply: Reply): void {
  const { json, headers, text } = reply
  if (endpoint.answers === 'redirect') {
    expect(URL.canParse(headers.get('location') ?? '', panel.url)).toBe(true)
    expect([text, headers.get('cache-control')]).toEqual(['', 'no-store'])
    return
  }
  if (endpoint.answers === 'file' || endpoint.answers === 'stream') {
    expect(text.length).toBeGreaterThan(0)
    expect(headers.get('content-disposition')).toMatch(/^attachment; filename="[\w.-]+"$/)
    expect([headers.get('cache-control'), headers.get('x-content-type-options')]).toEqual(['no-store', 'nosniff'])
    return
  }
  expect(document.ofAnswer(endpoint, reply)).toEqual([])
  expect(Object.keys(json ?? {}).sort()).toEqual(
    endpoint.paged ? ['data', 'pagination', 'success'] : ['data', 'success'],
  )
  expect(json?.success).toBe(true)
  if (endpoint.paged) expect(z.strictObject(Pagination.shape).safeParse(json?.pagination).success).toBe(true)
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('x-content-type-options')).toBe('nosniff')
}

function declaredActions({ audit }: Endpoint): string[] {
  return 'action' in audit ? [audit.action] : []
}

/** The actions of the rows that this request has left; what setup has made is asked with its administrator. */
async function auditActions(endpoint: Endpoint, valid: Valid, name: string): Promise<string[]> {
  const query = { requestId: `${name}-${endpoint.id}` }
  if (valid.at === undefined) return (await panel.client.call(listAuditLogs, { query })).map(({ action }) => action)
  const reply = await call(completeSetup, valid, 'peek')
  const { token } = completeSetup.response.parse(reply.json?.data)
  const rows = await callEndpoint(valid.at.url, listAuditLogs, { query }, { token })
  return listAuditLogs.response.parse(rows.json?.data).map(({ action }) => action)
}
