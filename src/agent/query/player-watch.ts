import { isIPv6 } from 'node:net'
import type { GamePlayers, GameQuery } from '../../shared/protocol/game-query.ts'
import { errorText } from '../logger.ts'
import type { Run } from '../runtime/runtime.ts'
import type { GameServer } from '../server/server.ts'
import type { ServerContext } from '../server/server-context.ts'
import { PROTOCOLS } from './protocols.ts'
import { queryPlayers } from './query.ts'

const LOOK_MS = 2000
const ALL_EVERY_MS = 15_000
const WATCHED_EVERY_MS = 5000
/** An answer is shown until several later questions have stayed without one. */
const KEPT_MS = 45_000
const AT_ONCE = 8
/** A game that has been silent so often in a row is worth a line in the agent's log. */
const SILENT_TIMES = 3

interface PlayerWatchOptions {
  readonly context: ServerContext
  readonly servers: ReadonlyMap<string, GameServer>
  /** Whether somebody looks at the server now: it is asked more often then. */
  readonly isWatched: (serverId: string) => boolean
}

/** What is known of one run. */
interface Asked {
  readonly run: Run
  /** When it was asked last, and when it answered last, by a clock that nobody sets. */
  readonly askedMs: number
  /** How often in a row it has not answered. */
  readonly silent: number
  readonly answer: { readonly players: GamePlayers; readonly atMs: number } | undefined
}

/** Asks running games who plays: one loop for all of them, at most eight at once, each at its own sockets only. */
export class PlayerWatch {
  readonly #options: PlayerWatchOptions
  readonly #asked = new Map<string, Asked>()
  readonly #asking = new Set<string>()

  constructor(options: PlayerWatchOptions) {
    this.#options = options
  }

  /** Who played when the game was asked last; `null`: not known. */
  of(server: GameServer): GamePlayers | null {
    const asked = this.#asked.get(server.id)
    if (asked?.answer === undefined || asked.run !== server.game?.run || server.power !== 'running') return null
    const ageMs = this.#options.context.clock.monotonicMs() - asked.answer.atMs
    return ageMs > KEPT_MS ? null : asked.answer.players
  }

  /** Ends with the agent. */
  async run(): Promise<void> {
    const { context, servers } = this.#options
    while (!context.ending.aborted) {
      for (const id of this.#asked.keys()) if (!servers.has(id)) this.#asked.delete(id)
      for (const server of servers.values()) {
        if (this.#asking.size >= AT_ONCE) break
        if (this.#isDue(server)) void this.#ask(server)
      }
      await context.rounds.next(LOOK_MS, context.ending)
    }
  }

  #isDue(server: GameServer): boolean {
    const { spec, game, power } = server
    if (spec.query === undefined || game === undefined || power !== 'running' || this.#asking.has(server.id))
      return false
    const { context, isWatched } = this.#options
    const asked = this.#asked.get(server.id)
    if (asked?.run !== game.run) return true
    const everyMs = isWatched(server.id) ? WATCHED_EVERY_MS : ALL_EVERY_MS
    return context.clock.monotonicMs() - asked.askedMs >= everyMs
  }

  async #ask(server: GameServer): Promise<void> {
    const { clock, log } = this.#options.context
    const { spec, game } = server
    if (spec.query === undefined || game === undefined) return
    const { run } = game
    const before = this.#asked.get(server.id)
    const askedMs = clock.monotonicMs()
    this.#asking.add(server.id)
    let answer = before?.run === run ? before.answer : undefined
    let silent = before?.run === run ? before.silent : 0
    try {
      const players = await this.#playersOf(server, run, spec.query)
      if (players !== undefined) answer = { players, atMs: clock.monotonicMs() }
      silent = 0
    } catch (error) {
      // Games answer late under load; what was answered before is shown for a while.
      silent += 1
      if (silent === SILENT_TIMES) {
        log.info({ serverId: server.id, err: errorText(error) }, 'game does not answer who plays')
      }
    } finally {
      this.#asking.delete(server.id)
    }
    this.#asked.set(server.id, { run, askedMs, silent, answer })
  }

  /** Nobody but the server's own processes is asked, whatever its port says; `undefined`: none of them has it. */
  async #playersOf(server: GameServer, run: Run, { protocol, port }: GameQuery): Promise<GamePlayers | undefined> {
    const { clock, ending } = this.#options.context
    const primary = server.rules.ports.find((one) => one.primary) ?? server.rules.ports[0]
    if (primary === undefined) return undefined
    const address = { ip: primary.ip, port: port ?? primary.port }
    const sockets = await run.listening(address)
    if (!sockets.some((socket) => socket.protocol === PROTOCOLS[protocol].over)) return undefined
    return await queryPlayers(protocol, { host: reachable(address.ip), port: address.port, clock, signal: ending })
  }
}

/** All addresses of the machine are reached by its loopback. */
function reachable(ip: string): string {
  return ip === '0.0.0.0' ? '127.0.0.1' : isIPv6(ip) && /^[0:]+$/.test(ip) ? '::1' : ip
}
