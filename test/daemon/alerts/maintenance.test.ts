import { afterAll, beforeAll, expect, it } from 'vitest'
import { setNodeMaintenance } from '../../../src/shared/api/nodes.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import type { Stage, StageNode } from '../servers/stage.ts'
import {
  type AlertStage,
  alertOf,
  alertsAbout,
  figures,
  lookedAt,
  makeRule,
  openAlertStage,
  whileSending,
} from './alert-stage.ts'

let all: AlertStage
let stage: Stage
let node: StageNode
let server: Server
let peer: AgentPeer
beforeAll(async () => {
  all = await openAlertStage()
  stage = all.stage
  node = await stage.node()
  server = await stage.create(await stage.template(), node)
  peer = await stage.peer(node, { servers: [report(server.id)] })
  await stage.status(server.id, 'running')
  await makeRule(stage, { type: 'resource_threshold', target: 'global', conditions: { memoryThreshold: 80 } })
  await makeRule(stage, { type: 'server_crashed', target: 'global' })
})
afterAll(() => all.close())

const maintenance = (enabled: boolean) =>
  stage.admin.call(setNodeMaintenance, { params: { nodeId: node.id }, body: { enabled } })
const exit = { code: 3, signal: null, oom: false, expected: false, uptimeMs: 5 }

it('of a node keeps alerts about its servers quiet; what still holds afterwards is raised', async () => {
  const full = figures(server.id, { memoryMb: 60 })
  await maintenance(true)
  await lookedAt(stage, peer, full)
  expect(await alertsAbout(stage, server.id)).toEqual([])
  await maintenance(false)
  const used = await whileSending(peer, full, alertOf(stage, { serverId: server.id }))
  expect(used).toMatchObject({ type: 'resource_threshold', resolved: false })

  await maintenance(true)
  // An open alert stays as it is.
  await lookedAt(stage, peer, figures(server.id, { memoryMb: 1 }))
  expect(await alertsAbout(stage, server.id)).toMatchObject([{ id: used.id, resolved: false }])
  const end = { power: 'offline' as const, pid: null, uptimeMs: null, lastExit: exit }
  const crashed = report(server.id, { ...end, crash: { count: 1, crashed: true, nextRestartMs: null } })
  peer.event({ type: 'server.state', report: crashed, previous: 'running', commandId: null })
  await stage.status(server.id, 'crashed')
  await lookedAt(stage, peer, figures(server.id, { memoryMb: 1 }))
  expect((await alertsAbout(stage, server.id)).map(({ type }) => type)).toEqual(['resource_threshold'])
  await maintenance(false)
  const reported = await alertOf(stage, { serverId: server.id }, ({ type }) => type === 'server_crashed')
  expect(reported).toMatchObject({ message: expect.stringContaining('exit code 3') })
})
