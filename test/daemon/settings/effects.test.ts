import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { route } from '../../../src/daemon/http/route.ts'
import { addRoute } from '../../../src/daemon/http/server.ts'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { getLogs } from '../../../src/shared/api/console.ts'
import { listJobs } from '../../../src/shared/api/jobs.ts'
import { createLocation } from '../../../src/shared/api/locations.ts'
import { restartServer } from '../../../src/shared/api/power.ts'
import { type SecuritySettings, updateSecuritySettings } from '../../../src/shared/api/security-settings.ts'
import { createServer, type Server } from '../../../src/shared/api/servers.ts'
import { getUploadLimit } from '../../../src/shared/api/settings.ts'
import { defineEndpoint } from '../../../src/shared/kernel/contract.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { openSetUpPanel } from '../accounts-panel.ts'
import { AgentPeer, report } from '../agent-peer.ts'
import { ConsoleStage } from '../console-stage.ts'
import { eventually } from '../gateway-stage.ts'
import { refusal } from '../place-panel.ts'

const set = (panel: TestPanel, body: Partial<Omit<SecuritySettings, 'locked'>>) =>
  panel.client.call(updateSecuritySettings, { body })

describe('requests and sign-ins', () => {
  const HOUR = 3_600_000
  const DAY = 24 * HOUR
  let ahead = 0
  let panel: TestPanel
  beforeAll(async () => {
    // Whoever waits for the time looks often whether the test has put it forward.
    const sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 30_000 ? 20 : ms, signal)
    const clock = { ...systemClock, sleep, nowMs: () => systemClock.nowMs() + ahead }
    const env = { PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: undefined, PANEL_LIMITS__REQUESTS_PER_MINUTE: undefined }
    panel = await startPanel({ clock, env })
  })
  afterAll(() => panel.close())

  /** Lets an hour pass; resolves when the upkeep that it sets off is done. */
  const upkeep = async (): Promise<void> => {
    const next = async () => {
      const query = { kind: 'system.upkeep', background: 'true' } as const
      return (await panel.client.call(listJobs, { query }))[0]?.nextAttemptAt ?? ''
    }
    const before = await eventually(next, (at) => at !== '')
    ahead += HOUR
    await eventually(next, (at) => at > before)
  }

  it('locks an account after as many failures as are set now', async () => {
    await set(panel, { lockoutMaxAttempts: 2, lockoutDurationMinutes: 3 })
    const body = { email: 'nobody@example.org', password: 'Wrong-horse-11' }
    const tries: string[] = []
    for (let i = 0; i < 3; i++) tries.push((await refusal(panel.as(undefined).call(login, { body }))).code)
    expect(tries).toEqual(['INVALID_CREDENTIALS', 'INVALID_CREDENTIALS', 'ACCOUNT_LOCKED'])
    const { meta } = await refusal(panel.as(undefined).call(login, { body }))
    expect(Number(meta['retryAfterSeconds'])).toBeGreaterThan(120)
    expect(Number(meta['retryAfterSeconds'])).toBeLessThanOrEqual(180)
  })

  it('limits sign-in requests of an address as is set now', async () => {
    const ask = () =>
      refusal(panel.as(undefined).call(login, { body: { email: 'other@example.org', password: 'Wrong' } }))
    expect((await ask()).code).toBe('INVALID_CREDENTIALS')
    await set(panel, { authRateLimitMax: 1 })
    expect(await ask()).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 1 } })
    await set(panel, { authRateLimitMax: 1000, lockoutMaxAttempts: 9 })
    expect((await ask()).code).toBe('INVALID_CREDENTIALS')
  })

  it('deletes rows of the audit log after as many days as are set now', async () => {
    const { id } = await panel.client.call(createLocation, { body: { name: 'Bonn' } })
    const rows = () => panel.client.call(listAuditLogs, { query: { resourceId: id } })
    ahead = 2 * DAY
    await set(panel, { auditRetentionDays: 3 })
    await upkeep()
    expect(await rows()).toHaveLength(1)
    await set(panel, { auditRetentionDays: 1 })
    await upkeep()
    expect(await rows()).toEqual([])
  })

  it('shows everybody who is signed in how large an upload may be', async () => {
    await set(panel, { fileTunnelMaxUploadMb: 42 })
    expect(await panel.client.call(getUploadLimit)).toEqual({
      maxUploadMb: 42,
      maxUploadBytes: 42 * 1024 * 1024,
      fileTunnelMaxUploadMb: 42,
      limitMb: 42,
    })
    expect((await refusal(panel.as(undefined).call(getUploadLimit))).code).toBe('UNAUTHENTICATED')
  })
})

describe('requests for files and transfers', () => {
  const common = { tag: 'Servers', method: 'GET', response: z.boolean(), summary: 'A path that limits know' } as const
  const files = defineEndpoint({
    ...common,
    id: 'test.files',
    path: '/api/servers/:serverId/files/list',
    access: 'session',
    params: { serverId: z.string() },
  })
  const bulk = defineEndpoint({
    ...common,
    id: 'test.bulk',
    path: '/api/agent/bulk/:ticket',
    access: 'public',
    params: { ticket: z.string() },
  })

  it('are counted apart from others, by what is set now', async () => {
    const accounts = await openSetUpPanel({
      more: (app) => {
        for (const endpoint of [files, bulk])
          addRoute(
            app,
            route(endpoint, async () => true),
          )
      },
    })
    try {
      const { settings, db } = accounts.deps
      const limit = (key: 'limits.fileRequestsPerMinute' | 'limits.transferRequestsPerMinute', most: number) =>
        db.write((tx) => settings.set(tx, key, most))
      const list = () => accounts.admin.call(files, { params: { serverId: 'x' } })
      const move = () => accounts.client().call(bulk, { params: { ticket: 'x' } })
      await limit('limits.fileRequestsPerMinute', 2)
      await limit('limits.transferRequestsPerMinute', 3)
      await Promise.all([list(), list(), move(), move(), move()])
      expect(await refusal(list())).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 2 } })
      expect(await refusal(move())).toMatchObject({ code: 'RATE_LIMITED', meta: { limit: 3 } })
      expect((await accounts.admin.page(listAuditLogs)).data.length).toBeGreaterThan(0)
      await limit('limits.fileRequestsPerMinute', 100)
      expect(await list()).toBe(true)
    } finally {
      await accounts.close()
    }
  })
})

describe('consoles and agents', () => {
  let stage: ConsoleStage
  beforeAll(async () => {
    stage = await ConsoleStage.open()
  })
  afterAll(() => stage.panel.close())
  beforeEach(() => stage.begin())
  afterEach(() => stage.end())

  it('takes as many commands of a caller as are set now', async () => {
    await set(stage.panel, { consoleRateLimitMax: 2 })
    await stage.command('one')
    await stage.command('two')
    expect((await refusal(stage.command('three'))).code).toBe('RATE_LIMITED')
    await set(stage.panel, { consoleRateLimitMax: 600 })
    expect(await stage.command('four')).toMatchObject({ sent: true })
  })

  it('sends a viewer no faster than is set now, and leaves nothing out', { tags: ['long'] }, async () => {
    await set(stage.panel, { consoleOutputLinesMax: 1000 })
    const reader = stage.watch()
    await reader.until('the greeting', (r) => r.of('connected')[0])
    stage.peer.say(stage.game.id, 1)
    await reader.until('the first line', (r) => r.seqs.length === 1)
    const began = systemClock.monotonicMs()
    // A second's worth goes out at once, what a page has above it is paid for afterwards.
    stage.peer.say(stage.game.id, 3999)
    await reader.until('all lines', (r) => r.seqs.at(-1) === 4000)
    expect(systemClock.monotonicMs() - began).toBeGreaterThan(1500)
    expect(reader.seqs).toEqual(Array.from({ length: 4000 }, (_, i) => i + 1))
    await set(stage.panel, { consoleOutputLinesMax: 100_000 })
    const again = systemClock.monotonicMs()
    stage.peer.say(stage.game.id, 20_000)
    await reader.until('all lines', (r) => r.seqs.at(-1) === 24_000)
    expect(systemClock.monotonicMs() - again).toBeLessThan(15_000)
  })

  it('holds no more lines of all consoles than is set now', async () => {
    const { panel, game, peer } = stage
    await set(panel, { maxBufferMb: 1 })
    const other = await anotherServer(stage)
    const log = peer.log(game.id)
    await peer.leave()
    await stage.enter(log, [other])
    stage.peer.log(other.id)
    const readers = [stage.watch(), stage.watch('', {}, other.id)]
    for (const reader of readers) await reader.until('the greeting', (r) => r.of('connected')[0])
    const long = (): string => 'x'.repeat(1000)
    stage.peer.say(game.id, 600, long)
    await readers[0]?.until('the lines', (r) => r.seqs.at(-1) === 600)
    stage.peer.say(other.id, 600, long)
    await readers[1]?.until('the lines', (r) => r.seqs.at(-1) === 600)
    await stage.peer.leave()
    const held = async ({ id }: Server) =>
      (await panel.client.call(getLogs, { params: { serverId: id }, query: { lines: 10 } })).count
    // While the node is away only what is held can be shown.
    await eventually(
      async () => [await held(game), await held(other)].join(),
      (counts) => counts === '0,10',
    )
    await set(panel, { maxBufferMb: 64 })
  })

  it('closes the connection of an agent that sends more frames than are set now', async () => {
    const frame = JSON.stringify({ type: 'weather', rain: true })
    for (let i = 0; i < 150; i++) stage.peer.socket.send(frame)
    await set(stage.panel, { agentMessageMax: 100 })
    expect(stage.peer.closeCode).toBeUndefined()
    for (let i = 0; i < 150; i++) stage.peer.socket.send(frame)
    expect(await stage.peer.until('the close', () => stage.peer.closeCode)).toBe(4429)
    expect(stage.peer.of('error')).toMatchObject([{ error: 'RATE_LIMITED' }])
    const { id, key } = stage.node
    const back = await AgentPeer.connect(stage.panel.url, id, key)
    await back.enter({ servers: [report(stage.game.id)] })
    await back.leave()
  })

  it('does not close it for what answers orders, and still for more than that', async () => {
    const { panel, peer, game } = stage
    await set(panel, { agentMessageMax: 100 })
    const params = { serverId: game.id }
    // Twice as many frames as a second may have: where the orders take longer than that, nothing is shown, and nothing fails.
    for (let i = 0; i < 50; i++) {
      const { commandId } = await panel.client.call(restartServer, { params, body: {} })
      const order = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
      for (const power of ['starting', 'running'] as const) {
        const state = report(game.id, { power, generation: order.generation })
        peer.event({ type: 'server.state', report: state, previous: 'running', commandId })
      }
      const seq = peer.finish(order)
      await peer.until('its acknowledgement', () => peer.of('event.ack').find((ack) => ack.seq >= seq))
    }
    expect(peer.closeCode).toBeUndefined()
    for (let i = 0; i < 2500; i++) peer.socket.send(JSON.stringify({ type: 'weather', rain: true }))
    expect(await peer.until('the close', () => peer.closeCode)).toBe(4429)
  })
})

async function anotherServer({ panel, game, node }: ConsoleStage): Promise<Server> {
  const { templateId } = game
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
  const place = { nodeId: node.id, locationId: node.locationId, templateId, primaryPort: 22_999 }
  return panel.client.call(createServer, { body: { name: 'other', ...sizes, ...place } })
}
