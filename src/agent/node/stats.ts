import type { AgentFrame } from '../../shared/protocol/frames.ts'
import type { ServerUsage } from '../../shared/protocol/server.ts'
import { errorText } from '../logger.ts'
import type { PlayerWatch } from '../query/player-watch.ts'
import type { GameServer } from '../server/server.ts'
import type { ServerContext } from '../server/server-context.ts'
import type { NodeGauge } from './node-health.ts'

const WATCHED_MS = 2000
const ALL_EVERY = 15_000
const HEALTH_EVERY = 10_000
const SERVERS_PER_FRAME = 200

interface StatsOptions {
  readonly context: ServerContext
  readonly servers: ReadonlyMap<string, GameServer>
  readonly gauge: NodeGauge
  readonly players: Pick<PlayerWatch, 'of'>
  /** Usage is worth nothing later: without a connection, or while its buffer is full, it is left out. */
  readonly send: (frame: AgentFrame) => void
}

/** Sends the usage of servers and of the node: one loop for all of them, so that idle servers cost no timer each. */
export class Stats {
  readonly #options: StatsOptions
  readonly #sentDisk = new Map<string, string>()
  #watched = new Set<string>()

  constructor(options: StatsOptions) {
    this.#options = options
  }

  /** Whether somebody looks at this server now. */
  isWatched(serverId: string): boolean {
    return this.#watched.has(serverId)
  }

  /** The usage of these servers is of interest now. */
  watch(serverIds: readonly string[]): void {
    this.#watched = new Set(serverIds)
  }

  /** A daemon has just connected and knows nothing: everything is sent again. */
  sendAnew(): void {
    this.#sentDisk.clear()
  }

  async run(): Promise<void> {
    const { clock, rounds, ending } = this.#options.context
    let allAt = 0
    let healthAt = 0
    while (!ending.aborted) {
      const now = clock.monotonicMs()
      const all = now >= allAt
      if (all) allAt = now + ALL_EVERY
      await this.#sendUsage(all)
      if (now >= healthAt) {
        healthAt = now + HEALTH_EVERY
        this.sendHealth()
      }
      await rounds.next(WATCHED_MS, ending)
    }
  }

  sendHealth(): void {
    const { context, servers, gauge, send } = this.#options
    const running = [...servers.values()].filter((server) => server.game !== undefined).length
    try {
      send({ type: 'health', health: gauge.read(running) })
    } catch (error) {
      context.log.warn({ err: errorText(error) }, 'cannot read node usage')
    }
  }

  async #sendUsage(all: boolean): Promise<void> {
    const { servers, send } = this.#options
    let usage: ServerUsage[] = []
    for (const server of [...servers.values()]) {
      if (!all && !this.#watched.has(server.id)) continue
      const one = await this.#usageOf(server)
      if (one !== undefined) usage.push(one)
      if (usage.length < SERVERS_PER_FRAME) continue
      send({ type: 'stats', servers: usage })
      usage = []
    }
    if (usage.length > 0) send({ type: 'stats', servers: usage })
  }

  /** A server that does not run has only its disk to report, and that only when it has changed. */
  async #usageOf(server: GameServer): Promise<ServerUsage | undefined> {
    const { context } = this.#options
    const diskMb = context.disk.usedMb(server.id)
    const hold = context.limits.of(server.id)
    const enforced = hold === undefined ? {} : { diskEnforced: hold.enforced }
    const { live } = server
    if (live === undefined) {
      const sent = `${diskMb} ${hold?.enforced}`
      if (diskMb === null || this.#sentDisk.get(server.id) === sent) return undefined
      this.#sentDisk.set(server.id, sent)
      return { serverId: server.id, ...NOTHING, diskMb, ...enforced }
    }
    try {
      const usage = await live.run.stats()
      const uptimeMs = Math.max(0, context.clock.nowMs() - live.run.record.startedAtMs)
      return { serverId: server.id, ...usage, diskMb, uptimeMs, ...enforced, players: this.#options.players.of(server) }
    } catch (error) {
      if (server.live === live) {
        context.log.warn({ serverId: server.id, err: errorText(error) }, 'cannot read server usage')
      }
      return undefined
    }
  }
}

const NOTHING = {
  cpuCores: null,
  memoryMb: null,
  ioReadBytes: null,
  ioWriteBytes: null,
  networkRxBytes: null,
  networkTxBytes: null,
  processes: null,
  uptimeMs: null,
  players: null,
} as const
