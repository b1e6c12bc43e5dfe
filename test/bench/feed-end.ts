import { connect } from 'node:net'
import { createNodeKey } from '../../src/shared/api/nodes.ts'
import { AgentPeer, report } from '../daemon/agent-peer.ts'
import { BenchPanel } from './bench-panel.ts'
import { type Measurement, median, shown, under } from './figure.ts'
import { seedServers } from './seed.ts'

const ROUNDS = 3

/** How soon an agent is told that nobody looks at a console any more. */
export const feedEnd: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  try {
    const serverId = (await seedServers(panel, 1, { running: true }))(0)
    const { apiKey } = await panel.client.call(createNodeKey, { params: { nodeId: panel.nodeId }, body: {} })
    const peer = await AgentPeer.connect(panel.url, panel.nodeId, apiKey)
    await peer.enter({ servers: [report(serverId)] })
    peer.log(serverId).append(1)
    const times: number[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const leave = await watch(panel, serverId)
      await peer.until('the subscription', () => peer.subscribed.has(serverId))
      const left = performance.now()
      leave()
      await peer.until('its end', () => !peer.subscribed.has(serverId), 60_000)
      times.push((performance.now() - left) / 1000)
      progress(`the feed ended after ${times.at(-1)?.toFixed(2)} s`)
    }
    await peer.leave()
    return {
      latest: under(Math.max(...times), 2, 's from the last viewer to the end of the feed'),
      median: shown(median(times), 's'),
    }
  } finally {
    await panel.leave()
  }
}

/** Opens the console of a server; resolves, when the stream has begun, with what ends it. */
function watch({ url, token }: BenchPanel, serverId: string): Promise<() => void> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      const path = `/api/servers/${serverId}/console/stream`
      socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`)
    })
    socket.on('error', reject)
    socket.once('data', () => resolve(() => socket.destroy()))
  })
}
