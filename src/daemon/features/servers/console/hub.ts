import type { StreamError } from '../../../../shared/kernel/events.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { ConsoleLine } from '../../../../shared/protocol/console.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Log } from '../../../core/log.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import type { FrameOf } from '../../../gateway/handlers.ts'
import type { SseConnection } from '../../../http/sse.ts'
import { endWithServers } from './endings.ts'
import { type ConsoleGateway, Feed } from './feed.ts'
import { Pace } from './pace.ts'
import { type Start, Viewer } from './viewer.ts'

const MIB = 1024 * 1024
/** A viewer who comes back within this time, as browsers do after a cut, finds the feed as it was. */
const LINGER_MS = 1000

/** What the consoles need; the gateway is made after them. */
export interface ConsoleDeps {
  readonly gateway: () => ConsoleGateway
  readonly clock: Clock
  readonly log: Log
  readonly db: Db
  readonly bus: Bus
  readonly settings: Settings
}

/** Makes the hub; streams of servers that are suspended or deleted meanwhile are ended with the reason. */
export function createConsole(deps: ConsoleDeps): Console {
  const hub = new Console(deps)
  endWithServers({ ...deps, hub })
  deps.bus.listen(({ type, serverId, data, timestamp }) => {
    if (type === 'eula_required' && serverId !== null) hub.announce(serverId, type, { ...data, timestamp })
  })
  return hub
}

interface Watched {
  readonly feed: Feed
  readonly viewers: Map<Viewer, SseConnection>
  /** Aborted when somebody watches again before the feed is given up. */
  linger: AbortController | undefined
}

/** All consoles that are watched. Lines of servers without a viewer do not cross the wire. */
export class Console {
  readonly #deps: ConsoleDeps
  /** By server; the one whose ring grew last stands last. */
  readonly #watched = new Map<string, Watched>()

  constructor(deps: ConsoleDeps) {
    this.#deps = deps
  }

  /** Shows the console on the connection until it ends. */
  async watch(
    server: { readonly id: string; readonly nodeId: string },
    connection: SseConnection,
    start: Start,
  ): Promise<void> {
    const watched = this.#open(server.id, server.nodeId)
    const { feed } = watched
    const { clock, log } = this.#deps
    const viewer = new Viewer({ feed, connection, clock, log, pace: this.#pace() })
    watched.viewers.set(viewer, connection)
    try {
      await viewer.run(start)
    } finally {
      watched.viewers.delete(viewer)
      if (watched.viewers.size === 0) void this.#giveUpLater(server.id, watched)
    }
  }

  /** Takes lines of an agent. */
  lines(nodeId: string, frame: FrameOf<'console'>): void {
    this.#feedOf(nodeId, frame.serverId)?.take(frame)
  }

  /** Takes the report that lines are gone. */
  gap(nodeId: string, frame: FrameOf<'console.gap'>): void {
    this.#feedOf(nodeId, frame.serverId)?.takeGap(frame)
  }

  /** The node is there, maybe over a new connection: its subscriptions begin anew where they ended. */
  nodeOnline(nodeId: string): void {
    for (const { feed } of this.#watched.values()) {
      if (feed.nodeId !== nodeId) continue
      feed.offline()
      void feed.subscribe()
    }
  }

  nodeOffline(nodeId: string): void {
    for (const { feed, viewers } of this.#watched.values()) {
      if (feed.nodeId !== nodeId) continue
      feed.offline()
      for (const viewer of viewers.keys()) viewer.reportOffline()
    }
  }

  /** Ends the streams of a server and says why. */
  endServer(serverId: string, error: StreamError['error']): void {
    const watched = this.#watched.get(serverId)
    if (watched === undefined) return
    for (const connection of watched.viewers.values()) connection.fail(error, { serverId })
  }

  /** Sends all who watch a server a frame that is no line. */
  announce(serverId: string, type: string, data: Readonly<Record<string, unknown>>): void {
    const watched = this.#watched.get(serverId)
    if (watched === undefined) return
    for (const connection of watched.viewers.values()) connection.send(type, { serverId, ...data })
  }

  isWatched(serverId: string): boolean {
    return this.#watched.has(serverId)
  }

  /** The lines that are held of a watched server, for when its node is away. */
  held(serverId: string): { readonly epoch: string; readonly lines: readonly ConsoleLine[] } | undefined {
    const feed = this.#watched.get(serverId)?.feed
    if (feed?.epoch === undefined || feed.epoch === '') return undefined
    return { epoch: feed.epoch, lines: feed.ring.lines() }
  }

  close(): void {
    for (const { feed, linger } of this.#watched.values()) {
      linger?.abort()
      feed.close()
    }
    this.#watched.clear()
  }

  #open(serverId: string, nodeId: string): Watched {
    const known = this.#watched.get(serverId)
    if (known !== undefined && known.feed.nodeId === nodeId && !known.feed.closed) {
      known.linger?.abort()
      known.linger = undefined
      return known
    }
    known?.feed.close()
    const feed = new Feed(serverId, nodeId, {
      clock: this.#deps.clock,
      log: this.#deps.log,
      gateway: this.#deps.gateway(),
      pace: this.#pace(),
      grown: (grown) => this.#keepWithinBounds(grown),
    })
    const watched: Watched = { feed, viewers: new Map(), linger: undefined }
    this.#watched.set(serverId, watched)
    void feed.subscribe()
    return watched
  }

  #pace(): Pace {
    const { clock, settings } = this.#deps
    return new Pace(clock, () => ({
      lines: settings.get('console.outputLinesPerSecond'),
      bytes: settings.get('console.outputBytesPerSecond'),
    }))
  }

  async #giveUpLater(serverId: string, watched: Watched): Promise<void> {
    const linger = new AbortController()
    watched.linger?.abort()
    watched.linger = linger
    await this.#deps.clock.sleep(LINGER_MS, linger.signal)
    if (linger.signal.aborted || watched.viewers.size > 0) return
    watched.feed.close()
    if (this.#watched.get(serverId) === watched) this.#watched.delete(serverId)
  }

  /** A server belongs to one node; lines that another one sends for it are left aside. */
  #feedOf(nodeId: string, serverId: string): Feed | undefined {
    const feed = this.#watched.get(serverId)?.feed
    return feed?.nodeId === nodeId ? feed : undefined
  }

  /** The rings that have not grown for the longest time go first. */
  #keepWithinBounds(grown: Feed): void {
    const entry = this.#watched.get(grown.serverId)
    if (entry?.feed === grown) {
      this.#watched.delete(grown.serverId)
      this.#watched.set(grown.serverId, entry)
    }
    const most = this.#deps.settings.get('console.bufferMb') * MIB
    let bytes = 0
    for (const { feed } of this.#watched.values()) bytes += feed.ring.bytes
    for (const { feed } of this.#watched.values()) {
      if (bytes <= most || feed === grown) return
      bytes -= feed.ring.bytes
      feed.ring.clear()
    }
  }
}
