import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { getServer, getServerStats, listServers } from '../../src/shared/api/servers.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { report } from './agent-peer.ts'
import { eventually, GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(() => stage.clear())

const HUGE = Number.MAX_VALUE
const NONE = { cpuCores: null, memoryMb: null, diskMb: null, processes: null, uptimeMs: null }
const NO_BYTES = { ioReadBytes: null, ioWriteBytes: null, networkRxBytes: null, networkTxBytes: null }

test.each([
  ['too large', { cpuCores: HUGE, memoryMb: HUGE, diskMb: HUGE, uptimeMs: HUGE, processes: 2 ** 53 - 1 }, {}],
  ['negative', { cpuCores: -HUGE, memoryMb: -1, diskMb: -1, uptimeMs: -1, processes: -1 }, {}],
  [
    'no numbers',
    {},
    { ioReadBytes: 'constructor', ioWriteBytes: '', networkRxBytes: '-1', networkTxBytes: '9'.repeat(99) },
  ],
])('figures that are %s do not break what is shown', async (_, figures, bytes) => {
  const node = await stage.node()
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter({ servers: [report(game.id)] })
  await stage.status(game, 'running')
  const params = { serverId: game.id }
  const health = { cpuPercent: HUGE, load1: HUGE, memoryUsageMb: HUGE, memoryTotalMb: HUGE, diskUsageMb: -HUGE }
  const more = { diskTotalMb: HUGE, networkRxBytes: 'x', networkTxBytes: '', uptimeSeconds: HUGE, runningServers: -1 }
  peer.send({ type: 'health', health: { ...health, ...more } })
  peer.send({ type: 'stats', servers: [{ serverId: game.id, ...NONE, ...NO_BYTES, ...figures, ...bytes }] })
  await eventually(
    () => panel.client.call(getServerStats, { params }),
    ({ timestamp }) => timestamp !== null,
  )
  const listed = await panel.client.call(listServers, {})
  expect(listed.map(({ id }) => id)).toContain(game.id)
  const shown = await panel.client.call(getServer, { params })
  for (const value of [shown.cpuPercent, shown.memoryUsageMb, shown.diskUsageMb]) {
    expect(value === null || value >= 0).toBe(true)
  }
  expect((await stage.nodeNow(node.nodeId)).isOnline).toBe(true)
})
