import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createLocation } from '../../src/shared/api/locations.ts'
import { getAdminHealth, getDbStatus } from '../../src/shared/api/overview.ts'
import { getServer } from '../../src/shared/api/servers.ts'
import type { AgentEvent } from '../../src/shared/protocol/frames.ts'
import { plantFaults } from '../faulty-driver.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { report } from './agent-peer.ts'
import { GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
let faults: { remove(): void } | undefined
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterEach(() => faults?.remove())
afterAll(async () => {
  await stage.clear()
  await panel.close()
})

const ready = async () => {
  const response = await fetch(`${panel.url}/readyz`)
  return [response.status, await response.json()]
}

describe('a page of the database that is damaged while the daemon runs', () => {
  it('stops the acknowledging of events, fails the readiness, and is named with the way out', async () => {
    const node = await stage.node()
    const game = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(game.id)] })
    for (const command of await peer.until('the order', () => peer.of('command').length > 0 && peer.of('command'))) {
      peer.finish(command)
    }
    await peer.until('the acknowledgement', () => peer.of('event.ack').length > 0)
    const before = peer.of('event.ack').length
    expect(await ready()).toEqual([200, { status: 'ok' }])

    // What SQLite answers for a page that is not what it should be, at the first table that an event touches.
    faults = plantFaults(({ sql }) => (/update "server"/i.test(sql) ? 'SQLITE_CORRUPT' : undefined))
    const state: AgentEvent = {
      type: 'server.state',
      report: report(game.id, { power: 'offline' }),
      previous: 'running',
      commandId: null,
    }
    peer.event(state)
    const done: AgentEvent = {
      type: 'command.done',
      commandId: 'cmd_unknown',
      serverId: game.id,
      ok: true,
      noop: false,
      error: null,
    }
    peer.event(done)
    await expect.poll(ready).toEqual([503, { status: 'unhealthy', reason: 'the database is damaged' }])
    faults.remove()
    // Also what could be stored is not: a copy that is gone back to would not have it, and the agent has dropped it.
    peer.event(done)
    const file = join(panel.dataDir, 'db', 'panel.db')
    await expect(panel.client.call(createLocation, { body: { name: 'Late' } })).rejects.toMatchObject({
      code: 'DATABASE_UNAVAILABLE',
      message: expect.stringContaining('panel db check'),
    })
    expect(peer.of('event.ack').length).toBe(before)
    expect(await panel.client.call(getServer, { params: { serverId: game.id } })).toMatchObject({ id: game.id })

    const health = await panel.client.call(getAdminHealth)
    expect(health).toMatchObject({ status: 'degraded', storage: 'damaged' })
    for (const part of [file, 'panel db restore', join(panel.dataDir, 'db', 'snapshots')]) {
      expect(health.problems.join()).toContain(part)
      expect(panel.log()).toContain(part)
    }
    const { integrity } = await panel.client.call(getDbStatus, { query: {} })
    expect([integrity.status, integrity.problems.join()]).toEqual(['damaged', expect.stringContaining(file)])
  })
})
