import { stat } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { setServerAccess } from '../../src/shared/api/access.ts'
import { getDashboardActivity, getDashboardResources, getDashboardStats } from '../../src/shared/api/dashboard.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { type DbStatus, getAdminHealth, getAdminStats, getDbStatus } from '../../src/shared/api/overview.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { reportSystemError } from '../../src/shared/api/system-errors.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import type { NodeHealth } from '../../src/shared/protocol/node.ts'
import { keyWith, signIn } from '../contract/world.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type AgentPeer, report } from './agent-peer.ts'
import { ConsoleReader } from './console-reader.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'

/** Added to the machine's time, for what is told by its age. */
let ahead = 0
let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  const clock = {
    ...systemClock,
    nowMs: () => systemClock.nowMs() + ahead,
    monotonicMs: () => systemClock.monotonicMs() + ahead,
  }
  panel = await startPanel({ clock })
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

const HEALTH: NodeHealth = {
  cpuPercent: 50,
  load1: 1.5,
  memoryUsageMb: 1000,
  memoryTotalMb: 4000,
  diskUsageMb: 10,
  diskTotalMb: 100,
  networkRxBytes: '5000',
  networkTxBytes: '100',
  uptimeSeconds: 60,
  runningServers: 1,
}

/** An agent that is connected and has told its figures. */
async function entered(health: Partial<NodeHealth> = {}) {
  const node = await stage.node()
  const peer = await stage.connect(node)
  await peer.enter()
  await stage.online(node.nodeId, true)
  peer.send({ type: 'health', health: { ...HEALTH, ...health } })
  return { node, peer }
}

/** The agent tells that the server runs. */
async function runs(peer: AgentPeer, game: Server): Promise<void> {
  const event = {
    type: 'server.state' as const,
    report: report(game.id),
    previous: 'offline' as const,
    commandId: null,
  }
  peer.send({ type: 'event', seq: 1, ageMs: 0, event })
  await stage.status(game, 'running')
}

async function leave(peer: AgentPeer, nodeId: Parameters<GatewayStage['online']>[0]): Promise<void> {
  await peer.leave()
  await stage.online(nodeId, false)
}

const admin = () => panel.client
const stats = () => admin().call(getAdminStats)
const health = () => admin().call(getAdminHealth)

describe('the numbers of the administration', () => {
  it('follow what is made and what agents report', async () => {
    const before = await stats()
    await signIn(panel, 'counted')
    const { node, peer } = await entered()
    const [game, other] = [await stage.server(node), await stage.server(node)]
    await runs(peer, game)
    const now = await stats()
    expect(now).toMatchObject({
      users: before.users + 1,
      servers: before.servers + 2,
      activeServers: before.activeServers + 1,
      nodes: before.nodes + 1,
      onlineNodes: before.onlineNodes + 1,
    })
    expect(now.serversByStatus).toMatchObject({ running: 1, [(await stage.serverNow(other)).status]: 1 })
    expect(Object.values(now.serversByStatus).reduce((all, count) => all + count, 0)).toBe(now.servers)
  })

  it('count the errors that nobody has resolved, and tell how long the daemon runs', async () => {
    const { openErrors, startedAt } = await stats()
    await admin().call(reportSystemError, { body: { component: 'screen', message: `it broke ${Math.random()}` } })
    const now = await eventually(stats, (seen) => seen.openErrors === openErrors + 1)
    expect(now.version).toMatch(/^\d+\.\d+\.\d+/)
    expect(now.startedAt).toBe(startedAt)
    ahead += 90_000
    expect((await stats()).uptimeSeconds - now.uptimeSeconds).toBeGreaterThanOrEqual(90)
  })
})

describe('health', () => {
  it('is degraded by a node that was there and is away, and names it', async () => {
    const { node, peer } = await entered()
    const { name } = await stage.nodeNow(node.nodeId)
    const well = await health()
    expect(well.problems.join()).not.toContain(name)
    await leave(peer, node.nodeId)
    const away = await health()
    expect(away).toMatchObject({ status: 'degraded', database: 'connected' })
    expect(away.problems.join()).toContain(name)
    expect([away.nodes.total, away.nodes.online]).toEqual([well.nodes.total, well.nodes.online - 1])
    expect(away.nodes.offline).toBe((well.nodes.offline ?? 0) + 1)
    expect(away.nodes.stale).toBe(well.nodes.stale)
    ahead += 5 * 60_000 + 1000
    expect((await health()).nodes.stale).toBeGreaterThan(well.nodes.stale ?? 0)
  })

  it('misses no node that was never connected', async () => {
    const { nodeId } = await stage.node()
    const { name } = await stage.nodeNow(nodeId)
    expect((await health()).problems.join()).not.toContain(name)
  })
})

describe('the status of the database', () => {
  const status = (check = false) => admin().call(getDbStatus, { query: check ? { check: 'true' } : {} })

  it('has the sizes of the real file, all tables and the schema', async () => {
    const walSize = async (): Promise<number> => (await stat(`${panel.dataDir}/db/panel.db-wal`)).size
    const before = await walSize()
    const now = await status()
    expect(now).toMatchObject({ status: 'connected', engine: 'sqlite', migrations: { pending: 0 } })
    expect(now.version).toMatch(/^3\./)
    expect(now.sizeBytes).toBe((await stat(now.path)).size)
    // Others write meanwhile.
    expect(now.walSizeBytes).toBeGreaterThanOrEqual(before)
    expect(now.walSizeBytes).toBeLessThanOrEqual(await walSize())
    expect(now.pageCount).toBeGreaterThan(10)
    expect(now.path.startsWith(panel.dataDir)).toBe(true)
    const names = now.tables.map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['audit_log', 'server', 'setting', 'user']))
    expect(names.filter((name) => name.startsWith('sqlite_'))).toEqual([])
  })

  it('counts rows, also those of the logs that are never counted through', async () => {
    const rows = async (name: string) => (await status()).tables.find((table) => table.name === name)?.rows ?? 0
    const before = { location: await rows('location'), audit: await rows('audit_log'), event: await rows('event') }
    await admin().call(createLocation, { body: { name: 'Counted' } })
    expect(await rows('location')).toBe(before.location + 1)
    expect(await rows('audit_log')).toBe(before.audit + 1)
    expect(await rows('event')).toBe(before.event + 2) // the location, and the row of the audit log
  })

  it('says that rows beyond the cap of lists are not counted', async () => {
    const file = await Connection.open((await status()).path, 'existing')
    try {
      await file.exec(`insert into idempotency (id, request_hash, created_at)
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 10050)
        select 'many-' || i, '', '2099-01-01T00:00:00.000Z' from n`)
      expect((await status()).tables).toContainEqual({ name: 'idempotency', rows: 10_000, rowsIsCapped: true })
      await file.exec("delete from idempotency where id like 'many-%'")
    } finally {
      await file.close()
    }
  })

  it('checks the file, finds what another program has broken, and announces it', async () => {
    const ended = (now: DbStatus) => now.integrity.status !== 'checking'
    expect((await status()).integrity).toEqual({ status: 'unchecked', problems: [], checkedAt: null })
    await status(true)
    const first = await eventually(() => status(), ended)
    expect(first.integrity).toMatchObject({ status: 'ok', problems: [] })
    const file = await Connection.open(first.path, 'existing')
    const events = new ConsoleReader(`${panel.url}/api/admin/events?types=db_status_changed`, panel.adminToken)
    try {
      await events.until('the greeting', (reader) => reader.of('connected')[0])
      await file.exec('pragma ignore_check_constraints = on')
      await file.exec("insert into audit_anchor (id, seq, hash) values (2, 0, '')")
      // A check of the last minute is not made again.
      await status(true)
      expect((await status()).integrity).toEqual(first.integrity)
      ahead += 61_000
      await status(true)
      const broken = await eventually(() => status(), ended)
      expect(broken.integrity.status).toBe('damaged')
      expect(broken.integrity.problems.join()).toContain('audit_anchor')
      const [reported] = await events.until(
        'the news',
        (reader) => reader.of('db_status_changed').length > 0 && reader.frames,
      )
      expect(reported).toBeDefined()
      expect(events.of('db_status_changed')[0]?.data).toMatchObject({ status: 'damaged' })
      expect((await health()).problems.join()).toContain('damaged')
    } finally {
      events.close()
      await file.exec('delete from audit_anchor where id = 2')
      await file.close()
    }
    ahead += 61_000
    await status(true)
    expect((await eventually(() => status(), ended)).integrity).toMatchObject({ status: 'ok', problems: [] })
  })
})

describe('the dashboard', () => {
  it('shows each what is his', async () => {
    const { node, peer } = await entered()
    const game = await stage.server(node)
    await runs(peer, game)
    const { id, token } = await signIn(panel, 'guest')
    const own = () => panel.as(token).call(getDashboardStats)
    const nothing = { servers: 0, serversOnline: 0, nodes: 0, nodesOnline: 0, alerts: 0, alertsUnacknowledged: 0 }
    expect(await own()).toEqual(nothing)
    const body = { targetUserId: id as never, permissions: ['server.read' as const] }
    await admin().call(setServerAccess, { params: { serverId: game.id }, body })
    expect(await own()).toEqual({ ...nothing, servers: 1, serversOnline: 1 })
    const all = await stats()
    expect(await admin().call(getDashboardStats)).toMatchObject({
      servers: all.servers,
      serversOnline: all.activeServers,
      nodes: all.nodes,
      nodesOnline: all.onlineNodes,
    })
    const readers = panel.as(await keyWith(panel, ['node.read']))
    expect(await readers.call(getDashboardStats)).toMatchObject({ servers: 0, nodes: all.nodes })
  })

  it('tells what was done last: all of it with admin.read, else what one did oneself', async () => {
    const { token } = await signIn(panel, 'doer')
    await admin().call(createLocation, { body: { name: 'Done last' } })
    const [last] = await admin().call(getDashboardActivity)
    expect(last).toMatchObject({ title: 'Location create', action: 'location.create', type: 'node', time: 'just now' })
    ahead += 2 * 3_600_000
    expect((await admin().call(getDashboardActivity, { query: { limit: 1 } }))[0]?.time).toBe('2h ago')
    const own = await panel.as(token).call(getDashboardActivity, { query: { limit: 20 } })
    expect(own.map(({ action }) => action)).toEqual(['auth.login'])
    expect(own[0]?.detail).toContain('doer: ')
    // A key that may do less than its user sees what was done by itself.
    const keyed = panel.as(await keyWith(panel, ['location.create']))
    expect(await keyed.call(getDashboardActivity)).toEqual([])
    await keyed.call(createLocation, { body: { name: 'Done by key' } })
    await admin().call(createLocation, { body: { name: 'Done by hand' } })
    expect((await keyed.call(getDashboardActivity)).map(({ action }) => action)).toEqual(['location.create'])
  })

  it('weighs the figures of the connected nodes, and measures traffic between two reports', async () => {
    const resources = () => admin().call(getDashboardResources)
    const { peer } = await entered({ cpuPercent: 100 })
    const second = await entered({ cpuPercent: 0, memoryUsageMb: 3000 })
    const now = await eventually(resources, ({ nodesReporting }) => nodesReporting === 2)
    expect(now).toMatchObject({ cpuUtilization: 50, memoryUtilization: 50, networkThroughput: null })
    expect(now.networkRxBytesPerSecond).toBeNull()
    ahead += 10_000
    peer.send({ type: 'health', health: { ...HEALTH, networkRxBytes: '105000', networkTxBytes: '50' } })
    const later = await eventually(resources, ({ networkRxBytesPerSecond }) => networkRxBytesPerSecond !== null)
    expect(later.networkRxBytesPerSecond).toBeGreaterThan(9000)
    expect(later.networkRxBytesPerSecond).toBeLessThanOrEqual(10_000)
    // A counter that is smaller than before belongs to a machine that was started anew.
    expect(later.networkTxBytesPerSecond).toBeNull()
    await leave(second.peer, second.node.nodeId)
    expect((await resources()).nodesReporting).toBe(1)
    const { token } = await signIn(panel, 'stranger')
    expect(await panel.as(token).call(getDashboardResources)).toMatchObject({ cpuUtilization: 0, nodesReporting: 0 })
  })
})
