import { readdir } from 'node:fs/promises'
import type { AgentFrame } from '../shared/protocol/frames.ts'
import type { SnapshotAnswer } from './link/session.ts'
import { snapshotFrames } from './link/snapshot.ts'
import { errorText } from './logger.ts'
import { adoptServer, resumeServer, settleServer } from './server/adopt.ts'
import { type CommandReports, CommandTable, type ServerTable } from './server/commands.ts'
import { scheduleRestart } from './server/crash-restart.ts'
import { GameServer } from './server/server.ts'
import type { ServerContext } from './server/server-context.ts'
import type { CommandRecord } from './state/journal-record.ts'
import { factsOfRun, recordedRuns, specOfRun } from './state/last-run.ts'

/** How many servers are adopted at the same time. */
const ADOPT_AT_ONCE = 8

/** The context without the parts that need the table of servers. */
export type NodeParts = Omit<ServerContext, 'adoptNew' | 'onRestartDue'>

/** The servers of this node and the orders on them. */
export class AgentNode {
  readonly context: ServerContext
  readonly servers: ServerTable = new Map()
  readonly commands: CommandTable
  /** Orders of the time before are taken up when a daemon has said which of them are over. */
  #isResumed = false
  /** A part of the journal is lost: until a daemon has said what is wanted, nothing is started by it. */
  #isHeld: boolean

  constructor(parts: NodeParts, reports: CommandReports) {
    this.#isHeld = parts.journal.hasLost
    this.context = {
      ...parts,
      onRestartDue: (server) => {
        if (!this.#isHeld) scheduleRestart(server)
      },
      adoptNew: (server) => {
        void server.order(() => this.#adoptNew(server))
      },
    }
    this.commands = new CommandTable(this.context, this.servers, reports)
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
    await this.#addRecorded()
    const waiting = [...this.servers.values()]
    const adoptNext = async (): Promise<void> => {
      for (let server = waiting.shift(); server !== undefined; server = waiting.shift()) {
        await this.#adopt(server, orders.get(server.id) ?? [])
      }
    }
    await Promise.all(Array.from({ length: ADOPT_AT_ONCE }, adoptNext))
    if (!this.#isHeld) for (const server of this.servers.values()) resumeServer(server)
  }

  /**
   * Goes on with what the agent was at when it ended. A journal may be older than it looks, so the orders in it wait for the
   * daemon, which knows those that are over; and an agent that has forgotten something hears what is wanted of its servers.
   */
  settle({ ended = [], settled = [] }: Pick<SnapshotAnswer, 'ended' | 'settled'>): void {
    for (const known of settled) {
      const server = this.servers.get(known.serverId)
      if (server !== undefined) settleServer(server, known)
    }
    this.context.journal.madeUp()
    if (!this.#isResumed) this.commands.resume(new Set(ended))
    this.#isResumed = true
    if (!this.#isHeld) return
    this.#isHeld = false
    for (const server of this.servers.values()) resumeServer(server)
  }

  /** All servers with their present state, for a daemon that has just connected. */
  async snapshot(): Promise<AgentFrame[]> {
    const known = [...this.servers.values()]
    await Promise.all(known.map((server) => server.refreshBounds()))
    const orphans = await this.#orphans()
    // Read in one go at the very end: every later change is an event behind this snapshot.
    const { journal } = this.context
    const servers = [...this.servers.values()].map((server) => server.report())
    const commands = journal.unfinished().map(({ id }) => id)
    return snapshotFrames({ servers, commands, orphans, gone: journal.gone(), asOf: journal.outbox.lastSeq })
  }

  /** Servers that the journal has lost, by what their holders have written down. */
  async #addRecorded(): Promise<void> {
    const { journal, layout, log } = this.context
    for (const [id, record] of await recordedRuns(layout.stateDir)) {
      if (this.servers.has(id) || journal.goneGeneration(id) !== undefined) continue
      log.warn({ serverId: id }, 'no specification in journal for running server, adopting it as is')
      this.servers.set(id, new GameServer(this.context, specOfRun(record), journal.facts(id) ?? factsOfRun(record)))
    }
  }

  async #adoptNew(server: GameServer): Promise<void> {
    await this.#adopt(server, [])
    // No snapshot has named it.
    await server.change({})
  }

  async #adopt(server: GameServer, orders: readonly CommandRecord[]): Promise<void> {
    try {
      await adoptServer(server, orders)
    } catch (error) {
      // The server stays listed as offline; a start finds a living run by itself and does not make a second one.
      this.context.log.error({ serverId: server.id, err: errorText(error) }, 'cannot adopt server')
    }
  }

  async #orphans(): Promise<string[]> {
    const names = await readdir(this.context.layout.serversDir)
    // What begins with a dot is the agent's own: what restores have on its way.
    return names.filter((name) => !this.servers.has(name) && name.length <= 200 && !name.startsWith('.'))
  }
}
