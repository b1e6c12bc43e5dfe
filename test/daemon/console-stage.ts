import type { z } from 'zod'
import { getLogs, sendCommand } from '../../src/shared/api/console.ts'
import { createNode, createNodeKey } from '../../src/shared/api/nodes.ts'
import { createServer, getServer, type Server } from '../../src/shared/api/servers.ts'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import type { LocationId, NodeId } from '../../src/shared/kernel/ids.ts'
import { type Clock, systemClock } from '../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { AgentPeer, type PeerHello, type PeerLog, report } from './agent-peer.ts'
import { ConsoleReader } from './console-reader.ts'
import { eventually } from './gateway-stage.ts'

/** A panel with one node, and for each test a server that runs there as an agent's peer says. */
export class ConsoleStage {
  readonly panel: TestPanel
  readonly node: { readonly id: NodeId; readonly locationId: LocationId; readonly key: string }
  #peer: AgentPeer | undefined
  #game: Server | undefined
  #count = 0
  readonly #readers: ConsoleReader[] = []

  static async open(clock: Clock = systemClock): Promise<ConsoleStage> {
    const env = { PANEL_LIMITS__STREAMS_PER_SERVER: '1000', PANEL_LIMITS__STREAMS_PER_USER: '1000' }
    const panel = await startPanel({ clock, env })
    const locationId = panel.locationId as LocationId // as the panel's own answers carry it
    const body = { name: 'console-node', locationId, maxMemoryMb: 100_000, maxCpuCores: 100 }
    const { id } = await panel.client.call(createNode, { body })
    const { apiKey } = await panel.client.call(createNodeKey, { params: { nodeId: id }, body: {} })
    return new ConsoleStage(panel, { id, locationId, key: apiKey })
  }

  private constructor(panel: TestPanel, node: ConsoleStage['node']) {
    this.panel = panel
    this.node = node
  }

  get peer(): AgentPeer {
    if (this.#peer === undefined) throw new Error('no agent is connected')
    return this.#peer
  }

  get game(): Server {
    if (this.#game === undefined) throw new Error('no server was made')
    return this.#game
  }

  /** Makes a new server, of a template with these fields, and an agent's peer that says it runs. */
  async begin(change: Partial<z.input<typeof NewTemplate>> = {}, about: PeerHello = {}): Promise<void> {
    const { client } = this.panel
    const name = `Console ${++this.#count}`
    const template = await client.call(createTemplate, { body: { name, startup: 'sleep 1000', ...change } })
    const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64 }
    const place = { nodeId: this.node.id, locationId: this.node.locationId, templateId: template.id }
    const body = { name, ...sizes, ...place, primaryPort: 21_000 + this.#count }
    this.#game = await client.call(createServer, { body })
    await this.enter(undefined, [], about)
  }

  /** Connects the agent's peer, with the log of an earlier connection, and with other servers that run there. */
  async enter(log?: PeerLog, others: readonly Server[] = [], about: PeerHello = {}): Promise<void> {
    const peer = await AgentPeer.connect(this.panel.url, this.node.id, this.node.key)
    if (log !== undefined) peer.logs.set(this.game.id, log)
    const servers = [this.game, ...others].map(({ id }) => report(id))
    await peer.enter({ journalId: `j${this.#count}`, ...about, servers })
    this.#peer = peer
    await this.status('running')
  }

  async status(wanted: Server['status']): Promise<void> {
    await eventually(
      () => this.panel.client.call(getServer, { params: { serverId: this.game.id } }),
      (server) => server.status === wanted,
    )
  }

  watch(query = '', headers: Record<string, string> = {}, serverId: string = this.game.id): ConsoleReader {
    const url = `${this.panel.url}/api/servers/${serverId}/console/stream${query}`
    const reader = new ConsoleReader(url, this.panel.adminToken, headers)
    this.#readers.push(reader)
    return reader
  }

  command(text: string) {
    return this.panel.client.call(sendCommand, { params: { serverId: this.game.id }, body: { command: text } })
  }

  logs(query: Record<string, string | number>) {
    return this.panel.client.call(getLogs, { params: { serverId: this.game.id }, query: query as never })
  }

  async end(): Promise<void> {
    for (const reader of this.#readers.splice(0)) reader.close()
    await this.#peer?.leave()
  }
}
