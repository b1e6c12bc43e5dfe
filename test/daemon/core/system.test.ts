import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createAudit } from '../../../src/daemon/access/audit.ts'
import { createBus } from '../../../src/daemon/core/bus.ts'
import { openSettings } from '../../../src/daemon/core/settings.ts'
import { type Db, openDb } from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import { isoTime, systemClock } from '../../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../../panel.ts'

describe('the routes for machines', () => {
  let panel: TestPanel
  beforeAll(async () => {
    panel = await startPanel()
  })
  afterAll(() => panel.close())

  const get = (path: string, token?: string) =>
    fetch(`${panel.url}${path}`, { headers: token === undefined ? {} : { authorization: `Bearer ${token}` } })

  it('say without a credential that the daemon lives and is ready', async () => {
    for (const path of ['/livez', '/readyz']) {
      const response = await get(path)
      expect([response.status, await response.json()]).toEqual([200, { status: 'ok' }])
    }
    const health = await get('/health')
    expect([health.status, await health.json()]).toEqual([
      200,
      { status: 'ok', timestamp: expect.stringMatching(/Z$/) },
    ])
  })

  it('say that the daemon is not ready while its database cannot be read', async () => {
    const connection = await Connection.open(`${panel.dataDir}/db/panel.db`, 'existing')
    await connection.exec('pragma busy_timeout = 5000; alter table setting rename to away')
    try {
      const answers = await Promise.all(['/readyz', '/health'].map((path) => get(path)))
      expect(answers.map(({ status }) => status)).toEqual([503, 503])
      expect(await answers[0]?.json()).toEqual({ status: 'unhealthy' })
      expect((await get('/livez')).status).toBe(200)
    } finally {
      await connection.exec('alter table away rename to setting')
      await connection.close()
    }
    expect((await get('/readyz')).status).toBe(200)
  })

  it('show figures to holders of admin.read alone', async () => {
    const key = async (permissions: string[]) =>
      (await panel.client.call(createApiKey, { body: { name: 'metrics', permissions } })).key
    const codeOf = async (response: Response) => [response.status, Object(await response.json()).code]
    expect(await codeOf(await get('/metrics'))).toEqual([401, 'UNAUTHENTICATED'])
    expect(await codeOf(await get('/metrics', 'x'))).toEqual([401, 'UNAUTHENTICATED'])
    expect(await codeOf(await get('/metrics', await key(['server.read'])))).toEqual([403, 'PERMISSION_DENIED'])
    const shown = await get('/metrics', await key(['admin.read']))
    const text = await shown.text()
    const cookie = { cookie: `panel_session=${panel.adminToken}` }
    expect((await fetch(`${panel.url}/metrics`, { headers: cookie })).status).toBe(200)
    expect([shown.status, shown.headers.get('content-type')]).toEqual([200, expect.stringContaining('text/plain')])
    expect(text).toMatch(/panel_build_info\{version="[^"]+"\} 1/)
    expect(text).toMatch(/panel_http_requests_total\{endpoint="api_keys.create",status="201"\} [1-9]/)
    const lags = [...text.matchAll(/^nodejs_eventloop_lag(?:_\w+)?_seconds (\S+)$/gm)]
    expect(lags.map(([, seconds]) => Number(seconds)).filter((seconds) => seconds >= 0 && seconds < 10)).toHaveLength(8)
    for (const line of text.trimEnd().split('\n'))
      expect(line).toMatch(/^($|# (HELP|TYPE) |[a-zA-Z_:][\w:]*(\{.*\})? \S+$)/)
  })
})

describe('a daemon that stops under load', () => {
  it('lets requests finish that it has begun, and cuts none', { tags: ['long'], timeout: 60_000 }, async () => {
    const panel = await startPanel()
    let closing = false
    const outcomes: { status: number; code?: string | undefined; afterStop: boolean }[] = []
    const broken: string[] = []
    const create = async (i: number): Promise<void> => {
      const body = JSON.stringify({ email: `u${i}@example.org`, username: `user-${i}`, password: 'Correct-horse-1' })
      const headers = { authorization: `Bearer ${panel.adminToken}`, 'content-type': 'application/json' }
      try {
        const response = await fetch(`${panel.url}${createUser.path}`, { method: 'POST', headers, body })
        outcomes.push({ status: response.status, ...Object(await response.json()), afterStop: closing })
      } catch (error) {
        broken.push(String(error instanceof Error ? (error.cause ?? error) : error))
      }
    }
    const requests = Array.from({ length: 24 }, (_, i) => create(i))
    const deadline = systemClock.monotonicMs() + 20_000
    while (outcomes.length === 0 && systemClock.monotonicMs() < deadline) await systemClock.sleep(2)
    closing = true
    await Promise.all([panel.close(), ...requests])
    expect(broken).toEqual([])
    expect(outcomes).toHaveLength(24)
    for (const { status, code } of outcomes) if (status !== 201) expect([status, code]).toEqual([503, 'SHUTTING_DOWN'])
    expect(outcomes.filter(({ status, afterStop }) => status === 201 && afterStop).length).toBeGreaterThan(0)
    expect(panel.log()).not.toContain('"level":"error"')
  })
})

describe('what the daemon keeps', () => {
  let folder: string
  let db: Db
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'panel-kept-'))
    await migrate(join(folder, 'panel.db'))
    db = await openDb(join(folder, 'panel.db'), systemClock)
  })
  afterAll(async () => {
    await db.close()
    await rm(folder, { recursive: true })
  })

  it('answers a setting after its commit, keeps it, and lets the configuration win', async () => {
    const settings = await openSettings(db)
    expect(settings.get('panel.name')).toBe('panel')
    await db
      .write(async (tx) => {
        await settings.set(tx, 'panel.name', 'lost')
        throw new Error('undone')
      })
      .catch(() => undefined) // undone on purpose
    expect(settings.get('panel.name')).toBe('panel')
    await db.write(async (tx) => {
      await settings.set(tx, 'panel.name', 'mine')
      expect(settings.get('panel.name')).toBe('panel')
    })
    expect(settings.get('panel.name')).toBe('mine')
    expect((await openSettings(db)).get('panel.name')).toBe('mine')
    expect(
      (await openSettings(db, { 'panel.name': { value: 'fixed', source: 'env', name: 'PANEL_PANEL__NAME' } })).get(
        'panel.name',
      ),
    ).toBe('fixed')
    await expect(db.write((tx) => settings.set(tx, 'limits.streamsPerUser', 1.5))).rejects.toThrow()
  })

  it('refuses to write a setting that the configuration fixes, and says where it is fixed', async () => {
    const fixed = { 'panel.name': { value: 'fixed', source: 'env', name: 'PANEL_PANEL__NAME' } } as const
    const settings = await openSettings(db, fixed)
    await expect(db.write((tx) => settings.set(tx, 'panel.name', 'other'))).rejects.toMatchObject({
      code: 'SETTING_LOCKED',
      meta: { source: 'env', name: 'PANEL_PANEL__NAME' },
    })
    expect(settings.get('panel.name')).toBe('fixed')
  })

  it('masks in the audit log what telling names hold, at any depth, and not what only names a row', async () => {
    const audit = createAudit(createBus(db), systemClock)
    const details = {
      name: 'seen',
      apiKeyId: 'key_1',
      password: { before: 'hunter1horse', after: 'hunter2horse' },
      smtp: [{ client_secret: 'hunter3horse', port: 25 }],
    }
    const actor = { caller: undefined, origin: null }
    await db.write((tx) => audit.record(tx, actor, { action: 'test.masking', resource: 'system', details }))
    const [row] = await db.read.selectFrom('auditLog').select('details').where('action', '=', 'test.masking').execute()
    expect(JSON.parse(row?.details ?? '')).toEqual({
      name: 'seen',
      apiKeyId: 'key_1',
      password: { before: '********', after: '********' },
      smtp: [{ client_secret: '********', port: 25 }],
    })
  })

  it('keeps the newest event when it forgets old ones, so that resuming there misses nothing', async () => {
    const bus = createBus(db)
    const append = () =>
      db.write((tx) => bus.append(tx, { type: 'node_updated', data: { nodeId: 'n', isOnline: true } }))
    for (let i = 0; i < 5; i++) await append()
    const { last } = await bus.bounds()
    await bus.prune(isoTime(systemClock.nowMs() + 1000), 100)
    expect(await bus.bounds()).toEqual({ first: last, last })
    await append()
    expect((await bus.after(last, 10)).map(({ id }) => id)).toEqual([last + 1])
  })
})
