import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { getAdminHealth } from '../../src/shared/api/overview.ts'
import { killServer, restartServer, startServer, stopServer } from '../../src/shared/api/power.ts'
import { listServers, type Server } from '../../src/shared/api/servers.ts'
import type { AgentEvent } from '../../src/shared/protocol/frames.ts'
import { isCommit, plantFaults } from '../faulty-driver.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type AgentPeer, report } from './agent-peer.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
let faults: { remove(): void } | undefined
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterEach(async () => {
  faults?.remove()
  await stage.clear()
})
afterAll(() => panel.close())

const exited: Parameters<typeof report>[1] = { power: 'offline', pid: null, uptimeMs: null }
const stateOf = (game: Server, change: Parameters<typeof report>[1]): AgentEvent => ({
  type: 'server.state',
  report: report(game.id, change),
  previous: 'running',
  commandId: null,
})

/** Everything that would be brought to the disk fails there, as on a full one. */
function fillDisk(): void {
  faults = plantFaults(({ sql }) => (isCommit(sql) ? 'SQLITE_FULL' : undefined))
}

/** Another node, with two servers that run; their first orders are behind them. */
async function twoRunning() {
  const node = await stage.node()
  const [one, two] = [await stage.server(node), await stage.server(node)]
  const peer = await stage.connect(node)
  await peer.enter({ servers: [report(one.id), report(two.id)] })
  await peer.until('the orders', () => peer.of('command').length >= 2)
  for (const command of peer.of('command')) peer.finish(command)
  await stage.status(one, 'running')
  await stage.status(two, 'running')
  await expect.poll(() => peer.of('event.ack').at(-1)?.seq).toBe(2)
  return { node, one, two, peer }
}

const listed = async (id: string) =>
  (await panel.client.call(listServers, { query: { limit: 100 } })).find((row) => row.id === id)?.status

/** The order that the peer was sent for this server after it was watched. */
const sent = (peer: AgentPeer, serverId: string, op: string) =>
  peer.until(`${op} for ${serverId}`, () =>
    peer.of('command').find((frame) => frame.serverId === serverId && frame.command.op === op),
  )

describe('while the disk of the database is full', () => {
  it('answers show what nodes report, health names the disk, and nothing is acknowledged', async () => {
    const { node, one, peer } = await twoRunning()
    fillDisk()
    const acks = peer.of('event.ack').length
    peer.event(stateOf(one, exited))
    await stage.status(one, 'stopped')
    expect(await listed(one.id)).toBe('stopped')
    const health = await panel.client.call(getAdminHealth)
    expect(health).toMatchObject({ status: 'degraded', storage: 'unwritable', database: 'connected' })
    expect(health.problems.join()).toContain(`free some space in ${panel.dataDir}/db`)
    const ready = await fetch(`${panel.url}/readyz`)
    const reason = 'the database cannot be written'
    expect([ready.status, await ready.json()]).toEqual([200, { status: 'degraded', reason }])
    // More events are taken as they come, over the same connection.
    peer.event(stateOf(one, { power: 'running', pid: 9 }))
    await stage.status(one, 'running')
    expect(peer.of('event.ack').length).toBe(acks)
    expect(peer.closeCode).toBeUndefined()
    await expect(panel.client.call(createLocation, { body: { name: 'No room' } })).rejects.toMatchObject({
      code: 'INSUFFICIENT_SPACE',
      message: expect.stringMatching(/full.*free some space.*API keys/),
    })

    // A node that goes, and one that comes.
    await peer.leave()
    expect(await stage.status(one, 'unknown')).toMatchObject({ lastKnownStatus: 'running' })
    const again = await stage.connect(node)
    expect(await again.enter({ lastEvent: 4, servers: [report(one.id, exited)] })).toBe(2)
    await stage.status(one, 'stopped')

    // With room it connects anew, and says again what was not stored.
    faults?.remove()
    await again.until('the daemon to ask for a new connection', () => again.closeCode === 1012)
    const last = await stage.connect(node)
    expect(await last.enter({ lastEvent: 4, servers: [report(one.id, exited)] })).toBe(2)
    last.event(stateOf(one, exited), 3)
    last.event(stateOf(one, exited), 4)
    await last.until('the acknowledgement', () => last.of('event.ack').some(({ seq }) => seq === 4))
    expect(await listed(one.id)).toBe('stopped')
    expect((await panel.client.call(getAdminHealth)).storage).toBe('ok')
  })

  it('stop and kill go straight to the node, and are written down when there is room', async () => {
    const { node, one, two, peer } = await twoRunning()
    fillDisk()
    const before = (await stage.serverNow(one)).generation
    const stopping = panel.client.call(stopServer, { params: { serverId: one.id }, body: { graceSeconds: 3 } })
    const stop = await sent(peer, one.id, 'stop')
    expect([stop.generation, stop.command]).toEqual([before + 1, { op: 'stop', timeoutMs: 3000 }])
    // It counts when the node has it in its journal, and not before.
    expect((await stage.serverNow(one)).desired).not.toBe('stopped')
    peer.send({ type: 'command.accepted', id: stop.id })
    expect(await stopping).toMatchObject({
      commandId: stop.id,
      stored: false,
      desired: 'stopped',
      generation: before + 1,
    })
    expect(await stage.serverNow(one)).toMatchObject({ desired: 'stopped', generation: before + 1 })
    const killing = panel.client.call(killServer, { params: { serverId: one.id }, body: {} })
    const kill = await sent(peer, one.id, 'kill')
    expect(kill.generation).toBe(before + 2)
    peer.send({ type: 'command.accepted', id: kill.id })
    await killing
    // What brings games up waits for the database, and so does what its node refuses to take.
    await expect(panel.client.call(restartServer, { params: { serverId: two.id }, body: {} })).rejects.toMatchObject({
      code: 'INSUFFICIENT_SPACE',
    })
    const done = { type: 'command.done', serverId: one.id, ok: true, noop: false, error: null } as const
    peer.event({ ...done, commandId: stop.id })
    peer.event(stateOf(one, { ...exited, generation: before + 2 }))
    await stage.status(one, 'stopped')

    faults?.remove()
    await peer.until('the daemon to ask for a new connection', () => peer.closeCode === 1012)
    // An order that is stored now is newer than those that went past the database.
    expect(await stage.serverNow(one)).toMatchObject({ desired: 'stopped', generation: before + 2 })
    const events = await stage.follow(one.id)
    const again = await stage.connect(node)
    await again.enter({
      lastEvent: 5,
      servers: [report(one.id, { ...exited, generation: before + 2 }), report(two.id)],
    })
    again.event({ ...done, commandId: stop.id }, 3)
    again.event({ ...done, commandId: kill.id }, 4)
    again.event(stateOf(one, { ...exited, generation: before + 2 }), 5)
    await events.until('the ends', (reader) => reader.of('server_command_done').length === 2)
    await stage.status(one, 'stopped')
    const next = await panel.client.call(startServer, { params: { serverId: one.id }, body: {} })
    expect(next).toMatchObject({ stored: true, generation: before + 3 })
    const rows = await panel.client.call(listAuditLogs, { query: { resourceId: one.id, limit: 100 } })
    const later = rows.filter(({ details }) => details?.['storedLater'] === true)
    expect(later.map(({ action }) => action).sort()).toEqual(['server.kill', 'server.stop'])
  })

  it('an order that its node does not take fails, and nothing of it is written down', async () => {
    const { one, peer } = await twoRunning()
    fillDisk()
    const stopping = panel.client.call(stopServer, { params: { serverId: one.id }, body: {} })
    await sent(peer, one.id, 'stop')
    await peer.leave()
    await expect(stopping).rejects.toMatchObject({ code: 'NODE_OFFLINE' })
    await expect(panel.client.call(stopServer, { params: { serverId: one.id }, body: {} })).rejects.toMatchObject({
      code: 'NODE_OFFLINE',
    })
    faults?.remove()
    await eventually(
      () => panel.client.call(getAdminHealth),
      ({ storage }) => storage === 'ok',
    )
    expect((await stage.serverNow(one)).desired).not.toBe('stopped')
  })
})
