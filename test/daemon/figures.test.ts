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

test('players are shown while the server runs, without what acts on a terminal; impossible ones are not known', async () => {
  const node = await stage.node()
  const game = await stage.server(node)
  const peer = await stage.connect(node)
  await peer.enter({ servers: [report(game.id)] })
  await stage.status(game, 'running')
  const params = { serverId: game.id }
  const shown = async (players: unknown, memoryMb: number) => {
    // A taken-over agent keeps to no schema.
    const usage = { serverId: game.id, ...NONE, ...NO_BYTES, memoryMb, players: players as null }
    peer.send({ type: 'stats', servers: [usage] })
    const { playersOnline, playersMax, playerNames } = await eventually(
      () => panel.client.call(getServerStats, { params }),
      ({ memoryUsageMb }) => memoryUsageMb === memoryMb,
    )
    return { playersOnline, playersMax, playerNames }
  }
  const UNKNOWN = { playersOnline: null, playersMax: null, playerNames: [] }
  expect(await shown(undefined, 1)).toEqual(UNKNOWN)
  expect(await shown({ online: 2, max: 20, names: ['Ann', '\u001b[2JZoë\r\n'] }, 2)).toEqual({
    playersOnline: 2,
    playersMax: 20,
    playerNames: ['Ann', 'Zoë'],
  })
  const [listed] = await panel.client.call(listServers, { query: { search: game.name } })
  expect(listed).toMatchObject({ playersOnline: 2, playersMax: 20 })
  expect(await shown({ online: 2 ** 40, max: 20, names: [] }, 3)).toEqual(UNKNOWN)
  expect(await shown({ online: 1, max: 1, names: Array(5000).fill('x') }, 4)).toEqual(UNKNOWN)
  expect(await shown({ online: 1, max: null, names: [] }, 5)).toEqual({ ...UNKNOWN, playersOnline: 1 })
  peer.event({
    type: 'server.state',
    report: report(game.id, { power: 'offline', pid: null, uptimeMs: null }),
    previous: 'running',
    commandId: null,
  })
  await stage.status(game, 'stopped')
  expect(await panel.client.call(getServer, { params })).toMatchObject({ playersOnline: null, playersMax: null })
})
