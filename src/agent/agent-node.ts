import { readdir } from 'node:fs/promises'
import type { AgentFrame } from '../shared/frames.ts'
import { adoptServer, resumeServer } from './adopt.ts'
import { CommandTable, type ServerTable } from './commands.ts'
import { scheduleRestart } from './crash-restart.ts'
import type { CommandRecord } from './journal-record.ts'
import { errorText } from './logger.ts'
import { GameServer } from './server.ts'
import type { ServerContext } from './server-context.ts'
import { snapshotFrames } from './snapshot.ts'

/** How many servers are adopted at the same time. */
const ADOPT_AT_ONCE = 8

/** The context without the parts that need the table of servers. */
export type NodeParts = Omit<ServerContext, 'adoptNew' | 'onRestartDue'>

/** The servers of this node and the orders on them. */
export class AgentNode {
  readonly context: ServerContext
  readonly servers: ServerTable = new Map()
  readonly commands: CommandTable

  constructor(parts: NodeParts, sendAccepted: (id: string) => void) {
    this.context = {
      ...parts,
      onRestartDue: (server) => scheduleRestart(server),
      adoptNew: (server) => {
        void server.order(() => this.#adopt(server, []))
      },
    }
    this.commands = new CommandTable(this.context, this.servers, sendAccepted)
  }

  /** Finds out what is there after the agent was away, and takes up what it was at. */
  async begin(): Promise<void> {
    const { journal } = this.context
    const orders = new Map<string, CommandRecord[]>()
    for (const order of journal.unfinished()) {
      orders.set(order.serverId, [...(orders.get(order.serverId) ?? []), order])
    }
    for (const [id, { spec, facts }] of journal.servers()) {
      this.servers.set(id, new GameServer(this.context, spec, facts))
    }
    const waiting = [...this.servers.values()]
    const adoptNext = async (): Promise<void> => {
      for (let server = waiting.shift(); server !== undefined; server = waiting.shift()) {
        await this.#adopt(server, orders.get(server.id) ?? [])
      }
    }
    await Promise.all(Array.from({ length: ADOPT_AT_ONCE }, adoptNext))
    this.commands.resume()
    for (const server of this.servers.values()) resumeServer(server)
  }

  /** All servers with their present state, for a daemon that has just connected. */
  async snapshot(): Promise<AgentFrame[]> {
    const known = [...this.servers.values()]
    await Promise.all(known.map((server) => server.refreshBounds()))
    const commands = this.context.journal.unfinished().map(({ id }) => id)
    const orphans = await this.#orphans()
    // Read in one go at the very end: every later change is an event behind this snapshot.
    const servers = [...this.servers.values()].map((server) => server.report())
    return snapshotFrames({ servers, commands, orphans })
  }

  async #adopt(server: GameServer, orders: readonly CommandRecord[]): Promise<void> {
    try {
      await adoptServer(server, orders)
    } catch (error) {
      // The server stays listed as offline; a start finds a living run by itself and does not make a second one.
      this.context.log.error({ serverId: server.id, err: errorText(error) }, 'a server could not be adopted')
    }
  }

  async #orphans(): Promise<string[]> {
    const names = await readdir(this.context.layout.serversDir)
    return names.filter((name) => !this.servers.has(name) && name.length <= 200)
  }
}
