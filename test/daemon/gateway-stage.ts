import { createNode, createNodeKey, getNode } from '../../src/shared/api/nodes.ts'
import { createServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { NodeId } from '../../src/shared/kernel/ids.ts'
import { betweenLooks } from '../looks.ts'
import type { TestPanel } from '../panel.ts'
import { AgentPeer } from './agent-peer.ts'
import { ConsoleReader } from './console-reader.ts'

type Node = Awaited<ReturnType<GatewayStage['node']>>

/** Nodes, agents' peers and servers of one panel; `clear` ends the connections of a test. */
export class GatewayStage {
  readonly panel: TestPanel
  readonly #peers: AgentPeer[] = []
  readonly #readers: ConsoleReader[] = []
  #count = 0

  constructor(panel: TestPanel) {
    this.panel = panel
  }

  /** A new node with a key. */
  async node() {
    const { client, locationId } = this.panel
    const name = `node-${++this.#count}`
    const body = { name, locationId: locationId as never, maxMemoryMb: 4096, maxCpuCores: 8 }
    const { id, locationId: location } = await client.call(createNode, { body })
    const { apiKey } = await client.call(createNodeKey, { params: { nodeId: id }, body: {} })
    return { nodeId: id, locationId: location, key: apiKey }
  }

  /** A new server on the node. */
  async server({ nodeId, locationId }: Node): Promise<Server> {
    const { client } = this.panel
    const name = `Sleep ${++this.#count}`
    const template = await client.call(createTemplate, { body: { name, startup: 'sleep 1000' } })
    const sizes = { allocatedMemoryMb: 128, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
    const place = { nodeId, locationId, templateId: template.id, primaryPort: 20_000 + this.#count }
    return await client.call(createServer, { body: { name, ...sizes, ...place } })
  }

  async connect({ nodeId, key }: Pick<Node, 'nodeId' | 'key'>): Promise<AgentPeer> {
    const peer = await AgentPeer.connect(this.panel.url, nodeId, key)
    this.#peers.push(peer)
    return peer
  }

  /** Follows the events of a server; resolves when the stream is open. */
  async follow(serverId: string): Promise<ConsoleReader> {
    const reader = new ConsoleReader(`${this.panel.url}/api/servers/${serverId}/events`, this.panel.adminToken)
    this.#readers.push(reader)
    await reader.until('the greeting', (r) => r.of('connected')[0])
    return reader
  }

  nodeNow(nodeId: NodeId) {
    return this.panel.client.call(getNode, { params: { nodeId } })
  }

  serverNow(server: Server): Promise<Server> {
    return this.panel.client.call(getServer, { params: { serverId: server.id } }) as Promise<Server> // the detail has more fields
  }

  /** Waits until the node is shown as online, or as not. */
  async online(nodeId: NodeId, wanted: boolean) {
    return await eventually(
      () => this.nodeNow(nodeId),
      (node) => node.isOnline === wanted,
    )
  }

  /** Waits until the server has the status. */
  async status(server: Server, wanted: Server['status']): Promise<Server> {
    return await eventually(
      () => this.serverNow(server),
      (now) => now.status === wanted,
    )
  }

  async clear(): Promise<void> {
    for (const reader of this.#readers.splice(0)) reader.close()
    await Promise.all(this.#peers.splice(0).map((peer) => peer.leave()))
  }
}

/** Polls until the answer is as wanted. */
export async function eventually<T>(look: () => Promise<T>, wanted: (value: T) => boolean): Promise<T> {
  const start = performance.now()
  for (;;) {
    const value = await look()
    if (wanted(value)) return value
    if (performance.now() > start + 10_000) throw new Error(`never as wanted: ${JSON.stringify(value)}`)
    await betweenLooks(start)
  }
}
