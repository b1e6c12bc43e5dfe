import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createLog } from '../../src/daemon/core/log.ts'
import { createSystemErrors, type SystemErrors } from '../../src/daemon/core/system-errors.ts'
import { systemErrorRoutes } from '../../src/daemon/features/signals/system-errors/routes.ts'
import { pruneErrors } from '../../src/daemon/features/signals/system-errors/rows.ts'
import { addRoute } from '../../src/daemon/http/server.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import * as api from '../../src/shared/api/system-errors.ts'
import { isoTime, systemClock } from '../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { HOUR, openSetUpPanel, person, refusal } from './accounts-panel.ts'

type Panel = Awaited<ReturnType<typeof openSetUpPanel>>

const TOKEN = `pak_${'0'.repeat(26)}_${'S'.repeat(43)}`

let accounts: Panel & { errors: SystemErrors }
beforeAll(async () => {
  const errors: SystemErrors[] = []
  const made = await openSetUpPanel({
    more: (app, deps) => {
      const { db, bus, audit } = deps
      const log = createLog({ level: 'silent' })
      // Its pauses are real, whatever the clock of the test says.
      const clock = { ...deps.clock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(5, signal) }
      const systemErrors = createSystemErrors({ db, bus, clock, log })
      errors.push(systemErrors)
      for (const route of systemErrorRoutes({ db, bus, audit, clock: deps.clock, systemErrors })) addRoute(app, route)
    },
  })
  const [first] = errors
  if (first === undefined) throw new Error('the panel has no system errors')
  accounts = { ...made, errors: first }
})
afterAll(async () => {
  await accounts.errors.close()
  await accounts.close()
})
beforeEach(async () => {
  await accounts.db.write((tx) => tx.q.deleteFrom('systemError').execute())
})

const list = async (
  query: NonNullable<Parameters<typeof accounts.admin.call<typeof api.listSystemErrors>>[1]>['query'] = {},
) => {
  await accounts.errors.written()
  return accounts.admin.call(api.listSystemErrors, { query })
}

/** The same bug each time, with another number in its message. */
function bug(number: number): Error {
  return new Error(`row ${number} of "table ${number}" does not fit srv_${'0'.repeat(25)}${number % 10}`)
}

describe('a system error', () => {
  it('is one row for each bug, however often it happens, and tells of its last time', async () => {
    for (let i = 0; i < 20; i++)
      accounts.errors.capture(bug(i), { component: 'test', requestId: `req-${i}`, userId: 'usr_a' })
    accounts.errors.capture(bug(1), { component: 'elsewhere' })
    accounts.errors.capture(new Error('another'), { component: 'test' })
    const rows = await list()
    expect(rows.map(({ component, count }) => [component, count]).sort()).toEqual([
      ['elsewhere', 1],
      ['test', 1],
      ['test', 20],
    ])
    const often = rows.find(({ count }) => count === 20)
    expect(often).toMatchObject({
      level: 'error',
      requestId: 'req-19',
      userId: 'usr_a',
      status: 'open',
      resolved: false,
    })
    expect(often?.stack).toContain('system-errors.test.ts')
    const events = await accounts.db.read
      .selectFrom('event')
      .select('data')
      .where('type', '=', 'system_error')
      .execute()
    expect(events.filter(({ data }) => data.includes(often?.id ?? '-'))).toHaveLength(1)
  })

  it('keeps no secret', async () => {
    const cause = new Error(`connect mysql://panel:hunter2horse@db.example.org/x with password=hunter3horse`)
    const error = new Error(`Authorization: Bearer ${TOKEN} and {"apiKey":"hunter4horse"} pst_1_hunter5horse`, {
      cause,
    })
    const metadata = {
      // Nothing but the word before it tells that this is one.
      request: 'GET / with bearer hunter0horse/of+strangers=',
      password: 'hunter6horse',
      url: 'https://a:hunter7horse@example.org',
      deep: [{ token: 'hunter8horse' }],
      headers: { 'x-api-key': 'hunter9horse', private_key: 'hunter0horse' },
      bottomless: { a: { b: { c: { d: { e: { f: { g: { h: { password: 'hunter1horse' } } } } } } } } },
    }
    accounts.errors.capture(error, { component: 'test', metadata })
    const [row] = await list()
    const stored = JSON.stringify([row, await accounts.db.read.selectFrom('systemError').selectAll().execute()])
    const events = JSON.stringify(
      await accounts.db.read.selectFrom('event').selectAll().where('type', '=', 'system_error').execute(),
    )
    for (const text of [stored, events]) {
      expect(text).not.toMatch(/hunter\dhorse/)
      expect(text).not.toContain('S'.repeat(43))
    }
    expect(row?.message).toContain('********')
    expect(stored).toContain('mysql://panel:********@db.example.org')
  })

  it('never throws, whatever is captured, and is not drowned by a flood', async () => {
    const circle: Record<string, unknown> = {}
    circle['self'] = circle
    for (const thrown of [undefined, null, 7, 'text', {}, Symbol('x'), new Error(''), Object.create(null)]) {
      accounts.errors.capture(thrown, { component: 'odd' })
    }
    accounts.errors.capture(new Error('circle'), { component: 'odd', metadata: circle })
    for (let i = 0; i < 5000; i++)
      accounts.errors.capture(new Error(`${'x'.repeat(i % 300)}`), { component: `flood ${i}` })
    const { pagination } = await accounts.admin.page(api.listSystemErrors, { query: {} })
    await accounts.errors.written()
    expect(pagination.total).toBeLessThan(250)
    expect(await list({ component: 'odd' })).not.toHaveLength(0)
  })

  it('begins anew when it comes back after it was resolved', async () => {
    accounts.clock.advance(2000) // the flood above has used up its second
    const again = (): void => accounts.errors.capture(bug(1), { component: 'back' })
    again()
    const [first] = await list({ component: 'back' })
    const params = { errorId: first?.id ?? '' }
    const resolved = await accounts.admin.call(api.resolveSystemError, { params, body: { note: 'replaced the disk' } })
    expect(resolved).toMatchObject({ status: 'resolved', resolvedBy: accounts.adminId, note: 'replaced the disk' })
    expect(await accounts.admin.call(api.resolveSystemError, { params, body: {} })).toEqual(resolved)
    const audit = await accounts.admin.call(listAuditLogs, { query: { action: 'system_error.resolve' } })
    expect(audit).toHaveLength(1)
    again()
    expect((await list({ component: 'back', resolved: 'false' })).map(({ count }) => count)).toEqual([1])
    expect(await list({ component: 'back' })).toHaveLength(2)
  })

  it('is found by level, component, time and text, and resolved by selection', async () => {
    const capture = (component: string, level: 'warn' | 'error'): void =>
      accounts.errors.capture(new Error(`of ${component}`), { component, level })
    capture('alpha one', 'warn')
    capture('alpha two', 'error')
    await accounts.errors.written()
    accounts.clock.advance(HOUR)
    capture('beta', 'warn')
    const names = async (query: Parameters<typeof list>[0]) => (await list(query)).map(({ component }) => component)
    expect(await names({})).toEqual(['beta', expect.stringContaining('alpha'), expect.stringContaining('alpha')])
    expect(await names({ level: 'warn' })).toEqual(['beta', 'alpha one'])
    expect((await names({ component: 'ALPHA' })).sort()).toEqual(['alpha one', 'alpha two'])
    expect(await names({ search: 'of beta' })).toEqual(['beta'])
    const middle = new Date(accounts.clock.nowMs() - HOUR / 2).toISOString()
    expect(await names({ from: middle })).toEqual(['beta'])
    const resolve = async (body: Parameters<typeof accounts.admin.call<typeof api.resolveSystemErrors>>[1]) =>
      (await accounts.admin.call(api.resolveSystemErrors, body)).resolved
    expect(await resolve({ body: { level: 'warn', to: middle } })).toBe(1)
    expect(await resolve({ body: { level: 'warn', to: middle } })).toBe(0)
    expect(await resolve({ body: {} })).toBe(2)
    expect(await names({ resolved: 'false' })).toEqual([])
    await pruneErrors(accounts.db, isoTime(Date.parse(middle)))
    expect(await names({})).toEqual(['beta'])
  })

  it('is forgotten when too many others have happened since', async () => {
    for (const component of ['first', 'second', 'third']) {
      accounts.clock.advance(2000)
      accounts.errors.capture(new Error('again'), { component })
      await accounts.errors.written()
    }
    await pruneErrors(accounts.db, isoTime(0), 2)
    expect((await list()).map(({ component }) => component)).toEqual(['third', 'second'])
  })

  it('is reported by whoever may, thirty times a minute', async () => {
    const nobody = await person(accounts, 'nobody', [])
    const body = { component: 'http', message: 'not from here' }
    expect(await refusal(nobody.call(api.reportSystemError, { body }))).toMatchObject({ code: 'PERMISSION_DENIED' })
    const ann = await person(accounts, 'ann', ['system_error.report'])
    const report = () => ann.call(api.reportSystemError, { body: { component: 'http', message: 'a screen broke' } })
    for (let i = 0; i < 30; i++) await report()
    expect(await refusal(report())).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 30 } })
    expect(await list()).toMatchObject([{ component: 'client/http', count: 30, userId: ann.id, level: 'error' }])
    expect(await refusal(ann.call(api.listSystemErrors, { query: {} }))).toMatchObject({ code: 'PERMISSION_DENIED' })
    const large = { component: 'a', message: 'b', metadata: { text: 'x'.repeat(60_000) } }
    await expect(accounts.admin.call(api.reportSystemError, { body: large })).rejects.toThrow('body.metadata')
  })

  it('is exported', async () => {
    accounts.errors.capture(new Error('=cmd()'), { component: 'sheet' })
    await accounts.errors.written()
    const parts: Uint8Array[] = []
    for await (const part of await accounts.admin.file(api.exportSystemErrors, { query: { component: 'sheet' } }))
      parts.push(part)
    const text = Buffer.concat(parts).toString('utf8')
    expect(text).toMatch(/^"id","createdAt","level","component","message","resolved","userId","requestId","stack"/)
    expect(text).toContain(`"'=cmd()","false"`)
  })
})

describe('a daemon', () => {
  let panel: TestPanel
  beforeAll(async () => {
    panel = await startPanel()
  })
  afterAll(() => panel.close())

  it('writes a failed request down with its id, and answers others', async () => {
    // A row that no version of ours has written makes the list fail.
    const { Connection } = await import('../../src/daemon/db/sqlite/connection.ts')
    const connection = await Connection.open(`${panel.dataDir}/db/panel.db`, 'existing')
    await connection.exec(`pragma busy_timeout = 5000;
      insert into role (id, name, permissions, created_at, updated_at) values ('role_x', 'x', 'no JSON', '', '')`)
    await connection.close()
    const headers = { authorization: `Bearer ${panel.adminToken}`, 'x-request-id': 'the-broken-one' }
    const broken = await fetch(`${panel.url}/api/roles`, { headers })
    expect(broken.status).toBe(500)
    const deadline = systemClock.monotonicMs() + 10_000
    let rows = await panel.client.call(api.listSystemErrors, { query: { requestId: 'the-broken-one' } })
    while (rows.length === 0 && systemClock.monotonicMs() < deadline) {
      await systemClock.sleep(20)
      rows = await panel.client.call(api.listSystemErrors, { query: { requestId: 'the-broken-one' } })
    }
    expect(rows).toMatchObject([{ component: 'http', count: 1, metadata: { method: 'GET', path: '/api/roles' } }])
    expect(rows[0]?.stack).toContain('listRoleRows')
    expect(rows[0]?.userId).toMatch(/^usr_/)
  })
})
