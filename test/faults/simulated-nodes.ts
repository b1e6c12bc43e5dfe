import { createLocation } from '../../src/shared/api/locations.ts'
import { createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import { createServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { LocationId, NodeId, ServerId, TemplateId } from '../../src/shared/kernel/ids.ts'
import { AgentPeer } from '../daemon/agent-peer.ts'
import type { FaultPanel } from './fault-panel.ts'

/** How many nodes, and how many servers on each. */
export interface Fleet {
  readonly nodes: number
  readonly serversPerNode: number
}

/** A registered node with servers, whose agent the test speaks for over a real connection. */
export class SimulatedNode {
  readonly id: NodeId
  readonly servers: readonly ServerId[]
  readonly #peer: AgentPeer
  #mute = false

  private constructor(id: NodeId, servers: readonly ServerId[], peer: AgentPeer) {
    this.id = id
    this.servers = servers
    this.#peer = peer
    peer.socket.on('message', () => {
      // Kept frames would make a long run slower and slower.
      for (const frame of peer.frames.splice(0)) if (frame.type === 'command' && !this.#mute) peer.finish(frame)
      peer.requests.length = 0
      peer.typed.length = 0
    })
  }

  /** Nodes whose agents carry out every order at once, and whose servers are stopped. */
  static async makeAll(panel: FaultPanel, { nodes, serversPerNode }: Fleet): Promise<SimulatedNode[]> {
    const { id: locationId } = await panel.client.call(createLocation, { body: { name: 'the fleet' } })
    const template = { name: 'fleet', startup: 'sleep 1000' }
    const { id: templateId } = await panel.client.call(createTemplate, { body: template })
    const made: SimulatedNode[] = []
    for (let number = 1; number <= nodes; number++) {
      made.push(await SimulatedNode.#make(panel, { number, serversPerNode, locationId, templateId }))
    }
    return made
  }

  static async #make(
    panel: FaultPanel,
    request: { number: number; serversPerNode: number; locationId: LocationId; templateId: TemplateId },
  ): Promise<SimulatedNode> {
    const { number, serversPerNode, locationId, templateId } = request
    const body = { name: `fleet-${number}`, locationId, maxMemoryMb: 100_000, maxCpuCores: 100 }
    const { id: nodeId } = await panel.client.call(createNode, { body })
    const { apiKey } = await panel.client.call(createNodeKey, { params: { nodeId }, body: {} })
    const size = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
    const one = async (_: unknown, i: number): Promise<ServerId> => {
      const place = { name: `game ${number}-${i}`, nodeId, locationId, templateId, primaryPort: 20_000 + i }
      return (await panel.client.call(createServer, { body: { ...place, ...size } })).id
    }
    const servers = await Promise.all(Array.from({ length: serversPerNode }, one))
    const peer = await AgentPeer.connect(panel.url, nodeId, apiKey)
    for (const serverId of servers) peer.log(serverId)
    await peer.enter()
    return new SimulatedNode(nodeId, servers, peer)
  }

  /** From now on it takes everything and answers nothing but the pings of the connection. */
  silence(): void {
    this.#mute = true
    for (const op of [
      'console.input',
      'console.subscribe',
      'console.unsubscribe',
      'console.fetch',
      'ports.check',
      'stats.watch',
    ])
      this.#peer.silent.add(op)
  }

  /** From now on it does not even read what arrives: the connection stalls. */
  stall(): void {
    this.#peer.socket.pause()
  }

  async leave(): Promise<void> {
    this.#peer.socket.terminate()
  }
}
