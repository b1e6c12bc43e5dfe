import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { deleteNode } from '../../src/shared/api/nodes.ts'
import { getDbStatus } from '../../src/shared/api/overview.ts'
import { deleteServer } from '../../src/shared/api/servers.ts'
import type { AgentFrame } from '../../src/shared/protocol/frames.ts'
import type { NodeHealth } from '../../src/shared/protocol/node.ts'
import { keyWith } from '../contract/world.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { report } from './agent-peer.ts'
import { ConsoleReader } from './console-reader.ts'
import { GatewayStage } from './gateway-stage.ts'

let panel: TestPanel
let stage: GatewayStage
const readers: ConsoleReader[] = []
beforeAll(async () => {
  panel = await startPanel()
  stage = new GatewayStage(panel)
})
afterAll(() => panel.close())
afterEach(async () => {
  for (const reader of readers.splice(0)) reader.close()
  await stage.clear()
})

const ofServer = (id: string) => `/api/servers/${id}/metrics/stream`
const ofNode = (id: string) => `/api/nodes/${id}/metrics/stream`

/** Opens a stream and waits for its greeting. */
async function open(path: string, token = panel.adminToken): Promise<ConsoleReader> {
  const reader = new ConsoleReader(`${panel.url}${path}`, token)
  readers.push(reader)
  await reader.until('the greeting', ({ frames }) => frames[0]?.event === 'connected')
  return reader
}

async function status(path: string, token = panel.adminToken): Promise<number> {
  const response = await fetch(`${panel.url}${path}`, { headers: { authorization: `Bearer ${token}` } })
  await response.body?.cancel()
  return response.status
}

const HEALTH: NodeHealth = {
  cpuPercent: 12.5,
  load1: 0.5,
  memoryUsageMb: 1000,
  memoryTotalMb: 4000,
  diskUsageMb: 10,
  diskTotalMb: 100,
  networkRxBytes: '9007199254740993',
  networkTxBytes: '100',
  uptimeSeconds: 60,
  runningServers: 1,
}

const figures = (serverId: string, memoryMb: number): AgentFrame => ({
  type: 'stats',
  servers: [
    {
      ...{ serverId, memoryMb, cpuCores: 0.25, diskMb: 7, processes: 3, uptimeMs: 5 },
      ...{ ioReadBytes: '1048576', ioWriteBytes: '0', networkRxBytes: '1', networkTxBytes: '2' },
    },
  ],
})

describe('the figures of a server', () => {
  it('come as its agent reports them, asked for while somebody watches; the newest is there at once', async () => {
    const node = await stage.node()
    const game = await stage.server(node)
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(game.id)] })
    await stage.status(game, 'running')
    const first = await open(ofServer(game.id))
    await peer.until('the request', () =>
      peer.requests.find((one) => one.op === 'stats.watch' && one.serverIds.length > 0),
    )
    peer.send(figures(game.id, 64))
    const frame = await first.until('figures', (reader) => reader.of('resource_stats')[0])
    expect(frame.id).toBeUndefined()
    expect(frame.data).toMatchObject({
      ...{ type: 'resource_stats', serverId: game.id, cpuPercent: 50, memoryUsageMb: 64, memoryTotalMb: 128 },
      ...{ diskUsageMb: 7, diskTotalMb: 64, diskIoMb: 1, networkRxBytes: '1', networkTxBytes: '2' },
    })
    const second = await open(ofServer(game.id))
    expect((await second.until('figures', (reader) => reader.of('resource_stats')[0])).data).toEqual(frame.data)
    first.close()
    second.close()
    await peer.until('the end of it', () => {
      const asked = peer.requests.filter((one) => one.op === 'stats.watch').at(-1)
      return asked?.op === 'stats.watch' && asked.serverIds.length === 0
    })
  })

  it('are refused while it is suspended, and end when it is suspended or deleted', async () => {
    const node = await stage.node()
    const [game, doomed] = [await stage.server(node), await stage.server(node)]
    const reader = await open(ofServer(game.id))
    const { path } = await panel.client.call(getDbStatus)
    const file = await Connection.open(path, 'existing')
    await file.run('update server set suspended_at = ? where id = ?', ['2026-01-01T00:00:00.000Z', game.id])
    await file.close()
    // Whatever is told of a server makes its streams look at it again.
    const peer = await stage.connect(node)
    await peer.enter({ servers: [report(game.id)] })
    const reported = await reader.until('the end', () => reader.ended && reader.of('error')[0])
    expect(reported.data).toMatchObject({ error: 'server_suspended', code: 'SERVER_SUSPENDED', serverId: game.id })
    expect(await status(ofServer(game.id))).toBe(423)
    const other = await open(ofServer(doomed.id))
    await panel.client.call(deleteServer, { params: { serverId: doomed.id }, query: { force: 'true' } })
    const gone = await other.until('the end', () => other.ended && other.of('error')[0])
    expect(gone.data).toMatchObject({ error: 'server_deleted', serverId: doomed.id })
  })

  it('are for those who may read the server', async () => {
    const game = await stage.server(await stage.node())
    expect(await status(ofServer(game.id), await keyWith(panel, ['node.view_stats']))).toBe(403)
    expect(await status(ofServer('srv_none'))).toBe(404)
    await open(ofServer(game.id), await keyWith(panel, ['server.read']))
  })
})

describe('the figures of a node', () => {
  it('come as its agent reports them, with the traffic since the report before', async () => {
    const node = await stage.node()
    const peer = await stage.connect(node)
    await peer.enter()
    await stage.online(node.nodeId, true)
    const reader = await open(ofNode(node.nodeId))
    const other = await open(ofNode((await stage.node()).nodeId))
    peer.send({ type: 'health', health: HEALTH })
    const first = await reader.until('figures', ({ frames }) => frames.find(({ event }) => event === 'node_stats'))
    expect(first.data).toMatchObject({
      type: 'node_stats',
      nodeId: node.nodeId,
      ...HEALTH,
      networkTxBytesPerSecond: null,
    })
    peer.send({ type: 'health', health: { ...HEALTH, networkTxBytes: '1000000' } })
    const second = await reader.until('more', ({ frames }) => frames.filter(({ event }) => event === 'node_stats')[1])
    expect(Number(second.data['networkTxBytesPerSecond'])).toBeGreaterThan(0)
    expect(second.data['networkRxBytesPerSecond']).toBe(0)
    expect(other.of('node_stats')).toEqual([])
    const late = await open(ofNode(node.nodeId))
    expect((await late.until('the newest', ({ frames }) => frames[1])).data).toEqual(second.data)
  })

  it('end with the node, and are for those who may see its figures', async () => {
    const { nodeId } = await stage.node()
    expect(await status(ofNode(nodeId), await keyWith(panel, ['node.read']))).toBe(403)
    expect(await status(ofNode('node_none'))).toBe(404)
    const reader = await open(ofNode(nodeId), await keyWith(panel, ['node.view_stats']))
    await panel.client.call(deleteNode, { params: { nodeId } })
    await reader.until('the end', ({ ended }) => ended)
  })
})
