import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { setServerAccess } from '../../../src/shared/api/access.ts'
import { resolveAlert } from '../../../src/shared/api/alerts.ts'
import { type Server, updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import type { Stage, StageNode } from '../servers/stage.ts'
import { isSignedWith } from '../webhooks/receiver.ts'
import {
  type AlertStage,
  alertOf,
  alertsAbout,
  figures,
  lookedAt,
  makeRule,
  openAlertStage,
  settled,
  whileSending,
} from './alert-stage.ts'

let all: AlertStage
let stage: Stage
let node: StageNode
let template: Template
let peer: AgentPeer
let server: Server
beforeAll(async () => {
  all = await openAlertStage()
  stage = all.stage
  node = await stage.node()
  template = await stage.template()
  server = await stage.create(template, node)
  peer = await stage.peer(node, { servers: [report(server.id)] })
  await stage.status(server.id, 'running')
})
afterAll(() => all.close())

describe('a threshold', () => {
  it('that is reached for long enough raises one alert, told by mail, webhook and events, and recovery resolves it', async () => {
    const { receiver, mail, clock } = all
    const rule = await makeRule(stage, {
      type: 'resource_threshold',
      target: 'server',
      targetId: server.id,
      conditions: { memoryThreshold: 80, durationSeconds: 20 },
      actions: { webhooks: [receiver.url], emails: ['Ops@example.org'], cooldownMinutes: 10 },
    })
    expect(rule.webhookSecret).toMatch(/^whsec_/)
    const stream = stage.watch(`${server.id}/events?types=alert`)
    await stream.until('the greeting', (r) => r.of('connected')[0])
    const member = await stage.person()
    const grant = { targetUserId: member.id as never, permissions: ['server.read' as const] }
    await stage.admin.call(setServerAccess, { params: { serverId: server.id }, body: grant })
    const blind = stage.watch(`${server.id}/events?types=alert,server_updated`, { token: member.token })
    await blind.until('the greeting', (r) => r.of('connected')[0])
    const high = figures(server.id, { memoryMb: 60, cpuCores: 0.1 })
    // It must last: at first there is nothing.
    await lookedAt(stage, peer, high)
    expect(await alertsAbout(stage, server.id)).toEqual([])
    clock.advance(21_000, 'both')
    const alert = await whileSending(peer, high, alertOf(stage, { serverId: server.id }))
    expect(alert).toMatchObject({
      ruleId: rule.id,
      type: 'resource_threshold',
      severity: 'warning',
      resolved: false,
      server: { id: server.id, name: server.name },
      metadata: { metric: 'memory', value: 93.8, threshold: 80 },
    })
    const first = await settled(stage, alert.id, 2)
    expect(first.map(({ channel, target, status }) => [channel, target, status]).sort()).toEqual([
      ['email', 'ops@example.org', 'sent'],
      ['webhook', receiver.url, 'sent'],
    ])
    const [reported] = await receiver.took(1)
    expect(reported?.json).toMatchObject({
      event: 'alert.created',
      serverId: server.id,
      serverName: server.name,
      data: { alert: { id: alert.id } },
    })
    expect(reported !== undefined && isSignedWith(reported, rule.webhookSecret ?? '')).toBe(true)
    expect(mail.received).toHaveLength(1)
    expect(mail.received[0]).toMatchObject({ to: ['ops@example.org'] })
    expect(mail.received[0]?.text).toContain('memory at 93.8')

    const low = figures(server.id, { memoryMb: 10 })
    await lookedAt(stage, peer, low)
    clock.advance(21_000, 'both')
    const resolved = await whileSending(peer, low, alertOf(stage, { serverId: server.id, resolved: true }))
    expect(resolved).toMatchObject({ id: alert.id, resolved: true, resolvedBy: null })
    await settled(stage, alert.id, 4)
    expect(receiver.received[1]?.json).toMatchObject({ event: 'alert.resolved' })
    expect(mail.received[1]?.text).toContain('Resolved:')
    await stream.until('both events', (r) => r.of('alert').length === 2)
    expect(stream.of('alert').map(({ data }) => data['alert'])).toMatchObject([{ resolved: false }, { resolved: true }])
    stream.close()
    // Who may read the server and not its alerts is told of it alone.
    await stage.admin.call(updateServer, { params: { serverId: server.id }, body: { description: 'for all' } })
    await blind.until('the edit', (r) => r.of('server_updated')[0])
    expect(blind.of('alert')).toEqual([])
    blind.close()

    // Within the cool-down it keeps quiet, after it it does not.
    await lookedAt(stage, peer, high)
    clock.advance(21_000, 'both')
    await lookedAt(stage, peer, high)
    expect(await alertsAbout(stage, server.id)).toHaveLength(1)
    clock.advance(10 * 60_000)
    // Meanwhile nobody knew: it has to last once more.
    await lookedAt(stage, peer, high)
    clock.advance(21_000, 'both')
    const again = await whileSending(peer, high, alertOf(stage, { serverId: server.id, resolved: false }))
    expect(again.id).not.toBe(alert.id)
    const params = { alertId: again.id as never }
    await stage.admin.call(resolveAlert, { params })
    await lookedAt(stage, peer, high)
    expect(await alertsAbout(stage, server.id)).toHaveLength(2)
  })

  it('of a node looks at the figures of the machine', async () => {
    const own = await stage.node()
    const machine = await stage.peer(own)
    await makeRule(stage, {
      type: 'resource_threshold',
      target: 'node',
      targetId: own.id,
      conditions: { diskThreshold: 90, cpuThreshold: 50 },
    })
    const health = { load1: 1, memoryUsageMb: 10, memoryTotalMb: 100, diskUsageMb: 95, diskTotalMb: 100 }
    const more = { networkRxBytes: '0', networkTxBytes: '0', uptimeSeconds: 1, runningServers: 0 }
    const frame = { type: 'health' as const, health: { cpuPercent: 20, ...health, ...more } }
    const alert = await whileSending(machine, frame, alertOf(stage, { nodeId: own.id }))
    expect(alert).toMatchObject({ severity: 'critical', metadata: { metric: 'disk', value: 95 }, node: { id: own.id } })
  })

  it('of a server that is not running is not reached by its last figures', async () => {
    const rested = await stage.create(template, node)
    const rule = await makeRule(stage, {
      type: 'resource_threshold',
      target: 'server',
      targetId: rested.id,
      conditions: { cpuThreshold: 50 },
    })
    const event = (power: 'running' | 'offline') =>
      peer.event({
        type: 'server.state',
        report: report(rested.id, power === 'running' ? {} : { power, pid: null, uptimeMs: null }),
        previous: 'offline',
        commandId: null,
      })
    event('running')
    await stage.status(rested.id, 'running')
    const busy = figures(rested.id, { cpuCores: 0.1 })
    const alert = await whileSending(peer, busy, alertOf(stage, { serverId: rested.id }))
    expect(alert).toMatchObject({ ruleId: rule.id, metadata: { metric: 'cpu', value: 100 } })
    event('offline')
    await alertOf(stage, { serverId: rested.id, resolved: true })
  })
})
