import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Registry } from 'prom-client'
import { type WebSocket, WebSocketServer } from 'ws'
import { PanelError } from '../../shared/kernel/errors.ts'
import { type Clock, type IsoTime, isoTime } from '../../shared/kernel/time.ts'
import type { Capability, InputOf, RequestDefinition, ResultOf } from '../../shared/protocol/define.ts'
import {
  type DaemonFrame,
  GATEWAY_CLOSE,
  GATEWAY_LIMITS,
  NODE_ID_HEADER,
  SUBPROTOCOL,
} from '../../shared/protocol/frames.ts'
import type { NodeHealth } from '../../shared/protocol/node.ts'
import type { Log } from '../core/log.ts'
import type { ShortReads } from '../core/short-reads.ts'
import type { Db } from '../db/db.ts'
import { createGatewayMetrics } from './gateway-metrics.ts'
import type { FrameOf, GatewayHandlers } from './handlers.ts'
import type { RequestOptions } from './pending.ts'
import { offline, Session } from './session.ts'
import { Turns } from './turns.ts'
import { refuse, UpgradeGuard, type VerifyNode } from './upgrade-guard.ts'

/** Receives an error, or a sentence about one. */
export type OnError = (error: unknown, about: { readonly level: 'warn' | 'error'; readonly nodeId?: string }) => void

/** Handshakes that are worked on at the same time. */
const HANDSHAKES = 4

/** The key may have been copied to another machine, or the network has cut the older connection without a word. */
const TWO_CONNECTIONS =
  'A node has connected while it was connected: the newer connection stays. When it goes on, two agents have one node key'
const OTHER_MACHINE =
  "Another machine has connected with a node's key and is refused. If the node has moved there, enrol that machine " +
  '(panel nodes enroll-token); if not, its key was copied: replace it (panel nodes rotate-key)'
const NOT_THE_MACHINE =
  'This machine is not the one that the key of the node belongs to. If the node has moved here, enrol this machine ' +
  '("panel nodes enroll-token <node>" on the panel, then "panel agent enroll --force" here)'

/** What a gateway is made of. */
export interface GatewayOptions {
  readonly db: Db
  readonly verify: VerifyNode
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly handlers: GatewayHandlers
  /** What handshakes let pass. */
  readonly reads: ShortReads
  readonly registry: Registry
  /** How many frames an agent may send in a second; above it its connection is closed with 4429. */
  readonly framesPerSecond: () => number
  /** The caller's address; the socket's own without this. */
  readonly addressOf?: (request: IncomingMessage) => string
  /** Receives what is a bug or needs a look by people, beside the log; must not throw. */
  readonly onError?: OnError
}

/** The daemon's end of the connections that agents open. Knows nodes by id and commands by row, and no more of the domain. */
export interface Gateway {
  /** Handles an upgrade request: to a session after the 101, or to a refusal in the API's envelope. Never throws. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /**
   * Asks the node's agent and answers what it says, by the request's definition. Rejects with NODE_OFFLINE (at once, also when
   * the connection goes meanwhile), AGENT_VERSION (the agent is too old to know it; nothing is sent), AGENT_TIMEOUT (nothing
   * came for its time, or `signal` has aborted), or the agent's error by `agentErrorToPanelError`.
   */
  request<D extends RequestDefinition>(
    nodeId: string,
    definition: D,
    input: InputOf<NoInfer<D>>,
    options?: RequestOptions<NoInfer<D>>,
  ): Promise<ResultOf<D>>
  /** Reports to an agent how far its console lines have been passed on; nothing happens without a connection. */
  acknowledgeConsole(nodeId: string, ack: Omit<Extract<DaemonFrame, { type: 'console.ack' }>, 'type'>): void
  /** Sends a command that is not in the command table; throws NODE_OFFLINE without a connection. */
  sendCommand(nodeId: string, frame: Extract<DaemonFrame, { type: 'command' }>): void
  /** Asks the agent to end a command whose definition says that it can be; its end comes as an event. Without a connection nothing happens. */
  cancelCommand(nodeId: string, command: { readonly id: string; readonly serverId: string }): void
  /** There are new rows in the command table for this node; call it after their commit. */
  wake(nodeId: string): void
  /** Why the agent of a node, which is connected, cannot do what needs these; `undefined`: it can, or is away. */
  refusalOf(nodeId: string, capabilities: readonly Capability[]): string | undefined
  isOnline(nodeId: string): boolean
  /** Whether the agent of a connected node can do something; false without a connection. */
  can(nodeId: string, capability: Capability): boolean
  /** The last health report of a connected node and when it came (milliseconds since the epoch). */
  health(nodeId: string): { readonly health: NodeHealth; readonly atMs: number } | undefined
  /** When the last byte of a connected node came. */
  lastSeen(nodeId: string): IsoTime | undefined
  /** The ids of the nodes that are online. */
  connected(): string[]
  /** Ends the node's connection, for 4401 (the default) with an error frame that says that its key was revoked. */
  disconnect(nodeId: string, code?: number): void
  /**
   * The id of the node whose credentials an HTTP request carries, by the same rules as at an upgrade; throws the refusal as a
   * PanelError. `address`: what attempts are counted by.
   */
  identify(request: Pick<IncomingMessage, 'headers'>, address: string): Promise<string>
  /** Ends all connections with 1012, refuses new ones, and resolves when everything received has been stored. */
  close(): Promise<void>
}

/** Makes the gateway; the caller hands it the upgrade requests of its HTTP server. */
export function createGateway(options: GatewayOptions): Gateway {
  return new Sessions(options)
}

/** A connection. `before`: the end of the one that it has replaced. */
interface Entry {
  readonly session: Session
  finished: Promise<void>
  before: Promise<void>
}

class Sessions implements Gateway {
  readonly #options: GatewayOptions
  readonly #guard: UpgradeGuard
  readonly #metrics: ReturnType<typeof createGatewayMetrics>
  readonly #sockets = new WebSocketServer({
    noServer: true,
    maxPayload: GATEWAY_LIMITS.maxFrameBytes,
    perMessageDeflate: false,
    clientTracking: false,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  })
  /** The session of each node, and its end with all that follows from it. */
  readonly #current = new Map<string, Entry>()
  readonly #turns: Turns
  /** The newest connection of each node that has not said yet which machine it comes from: the present one stays so long. */
  readonly #newcomers = new Map<string, Entry>()
  /** Nodes that were reported online. */
  readonly #announced = new Set<string>()
  readonly #running = new Set<Promise<void>>()
  /** How often a key was revoked. */
  #revocations = 0
  #closing = false

  constructor(options: GatewayOptions) {
    this.#options = options
    this.#metrics = createGatewayMetrics(options.registry)
    this.#turns = new Turns(HANDSHAKES, options)
    const { verify, clock } = options
    const addressOf = options.addressOf ?? ((request: IncomingMessage) => request.socket.remoteAddress ?? '')
    this.#guard = new UpgradeGuard({ verify, clock, addressOf })
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const onError = (): void => {
      socket.destroy() // the other side went away before it was let in: nobody is left to answer
    }
    socket.on('error', onError)
    this.#admit(request).then(
      (nodeId) => {
        if (socket.destroyed) return
        this.#sockets.handleUpgrade(request, socket, head, (webSocket) => {
          socket.off('error', onError)
          this.#begin(nodeId, webSocket, socket)
        })
      },
      (error: unknown) => this.#refuse(socket, error),
    )
  }

  async request<D extends RequestDefinition>(
    nodeId: string,
    definition: D,
    input: InputOf<D>,
    options: RequestOptions<D> = {},
  ): Promise<ResultOf<D>> {
    const session = this.#current.get(nodeId)?.session
    if (session === undefined) throw offline()
    return await session.request(definition, input, options)
  }

  cancelCommand(nodeId: string, { id, serverId }: { readonly id: string; readonly serverId: string }): void {
    const session = this.#current.get(nodeId)?.session
    if (session?.ready === true) session.send({ type: 'command.cancel', id, serverId })
  }

  acknowledgeConsole(nodeId: string, ack: Omit<Extract<DaemonFrame, { type: 'console.ack' }>, 'type'>): void {
    const frame: DaemonFrame = { type: 'console.ack', ...ack }
    const session = this.#current.get(nodeId)?.session
    if (session?.ready === true) session.send(frame)
  }

  sendCommand(nodeId: string, frame: Extract<DaemonFrame, { type: 'command' }>): void {
    const session = this.#current.get(nodeId)?.session
    if (session?.ready !== true) throw offline()
    session.send(frame)
  }

  async identify(request: Pick<IncomingMessage, 'headers'>, address: string): Promise<string> {
    // What names no node guesses no key.
    if (request.headers[NODE_ID_HEADER] === undefined) {
      throw new PanelError('UNAUTHENTICATED', 'This route is for agents of nodes: send the id and key of a node')
    }
    return await this.#guard.identify(request, address)
  }

  wake(nodeId: string): void {
    this.#current.get(nodeId)?.session.wake()
  }

  refusalOf(nodeId: string, capabilities: readonly Capability[]): string | undefined {
    return this.#current.get(nodeId)?.session.refusalOf(capabilities)
  }

  isOnline(nodeId: string): boolean {
    return this.#current.get(nodeId)?.session.ready === true
  }

  can(nodeId: string, capability: Capability): boolean {
    return this.isOnline(nodeId) && this.#current.get(nodeId)?.session.can(capability) === true
  }

  health(nodeId: string): { readonly health: NodeHealth; readonly atMs: number } | undefined {
    return this.#current.get(nodeId)?.session.health
  }

  lastSeen(nodeId: string): IsoTime | undefined {
    const session = this.#current.get(nodeId)?.session
    return session === undefined ? undefined : isoTime(session.heardAt)
  }

  connected(): string[] {
    return [...this.#current].flatMap(([nodeId, { session }]) => (session.ready ? [nodeId] : []))
  }

  disconnect(nodeId: string, code: number = GATEWAY_CLOSE.keyRevoked): void {
    if (code === GATEWAY_CLOSE.keyRevoked) this.#revocations += 1
    const revoked = { error: 'UNAUTHENTICATED', message: 'The key of this node was revoked' }
    for (const of of [this.#current, this.#newcomers]) {
      of.get(nodeId)?.session.close(code, code === GATEWAY_CLOSE.keyRevoked ? revoked : undefined)
    }
  }

  async close(): Promise<void> {
    this.#closing = true
    for (const { session } of [...this.#current.values(), ...this.#newcomers.values()]) session.close(1012)
    while (this.#running.size > 0) await Promise.all(this.#running)
    this.#sockets.close()
  }

  async #admit(request: IncomingMessage): Promise<string> {
    if (this.#closing) throw stopping()
    const revocations = this.#revocations
    const nodeId = await this.#guard.admit(request)
    // A session is made in the same round.
    await this.#turns.run(() => undefined)
    // What was revoked meanwhile had no session yet that could be closed.
    if (revocations !== this.#revocations) return await this.#admit(request)
    if (this.#closing) throw stopping()
    return nodeId
  }

  #refuse(socket: Duplex, error: unknown): void {
    const known = error instanceof PanelError
    if (!known) {
      this.#options.log.error({ err: error }, 'cannot verify node key')
      this.#options.onError?.(error, { level: 'error' })
    }
    const refusal = known ? error : new PanelError('INTERNAL_ERROR', 'The node could not be checked; try again')
    this.#metrics.refused(refusal.code)
    refuse(socket, refusal, this.#options.clock)
  }

  #begin(nodeId: string, webSocket: WebSocket, stream: Duplex): void {
    const { db, clock, log, version, handlers, framesPerSecond, onError } = this.#options
    const metrics = this.#metrics
    const session: Session = new Session(nodeId, webSocket, {
      db,
      clock,
      log,
      version,
      handlers,
      metrics,
      framesPerSecond,
      onError: (error) => onError?.(error, { level: 'error', nodeId }),
      claim: (hello) => this.#claim(entry, hello),
      ready: () => this.#announce(nodeId),
      turns: this.#turns,
    })
    const entry: Entry = { session, finished: Promise.resolve(), before: Promise.resolve() }
    this.#newcomers.get(nodeId)?.session.close(GATEWAY_CLOSE.replaced, REPLACED)
    this.#newcomers.set(nodeId, entry)
    entry.finished = this.#run(entry, stream)
    this.#running.add(entry.finished)
    void entry.finished.finally(() => this.#running.delete(entry.finished))
  }

  /** Makes a newcomer the node's connection; one from a machine that is not the node's is refused, and nothing changes. */
  async #claim(entry: Entry, hello: FrameOf<'hello'>): Promise<boolean> {
    const { session } = entry
    const { nodeId } = session
    const { handlers, log, onError } = this.#options
    const verdict = await handlers.onClaim(nodeId, hello)
    const present = this.#current.get(nodeId)?.session
    const isOther = verdict === 'other' || (present !== undefined && (await isElsewhere(present, hello)))
    if (this.#newcomers.get(nodeId) !== entry) return false
    this.#newcomers.delete(nodeId)
    if (isOther) {
      log.warn({ nodeId, hostname: hello.hostname }, 'refused another machine with the key of a node')
      onError?.(OTHER_MACHINE, { level: 'warn', nodeId })
      session.close(GATEWAY_CLOSE.replaced, { error: 'OTHER_MACHINE', message: NOT_THE_MACHINE })
      return false
    }
    this.#replace(entry, hello)
    await entry.before
    return this.#current.get(nodeId) === entry
  }

  #replace(entry: Entry, hello: FrameOf<'hello'>): void {
    const { nodeId } = entry.session
    const { log, onError } = this.#options
    const previous = this.#current.get(nodeId)
    this.#current.set(nodeId, entry)
    if (previous === undefined) return
    entry.before = previous.finished
    if (previous.session.ready) {
      log.warn({ nodeId }, 'node connected again, closing older connection')
      onError?.(TWO_CONNECTIONS, { level: 'warn', nodeId })
      entry.session.contested = previous.session.hello?.journalId !== hello.journalId
    }
    previous.session.close(GATEWAY_CLOSE.replaced, REPLACED)
  }

  async #run(entry: Entry, stream: Duplex): Promise<void> {
    const { session } = entry
    const { nodeId } = session
    await session.run(stream)
    if (this.#newcomers.get(nodeId) === entry) this.#newcomers.delete(nodeId)
    await entry.before
    if (this.#current.get(nodeId) !== entry) return // replaced or refused: the node's own connection reports how it goes on
    if (this.#announced.delete(nodeId)) await this.#reportOffline(nodeId)
    if (this.#current.get(nodeId) === entry) this.#current.delete(nodeId)
    this.#metrics.connected(this.#announced.size)
  }

  async #announce(nodeId: string): Promise<void> {
    this.#announced.add(nodeId)
    this.#metrics.connected(this.#announced.size)
    this.#options.log.info({ nodeId }, 'node online')
    await this.#options.handlers.onOnline(nodeId)
  }

  async #reportOffline(nodeId: string): Promise<void> {
    this.#options.log.info({ nodeId }, 'node offline')
    try {
      await this.#options.handlers.onOffline(nodeId)
    } catch (error) {
      this.#options.log.error({ nodeId, err: error }, 'cannot record node as offline')
      this.#options.onError?.(error, { level: 'error', nodeId })
    }
  }
}

const REPLACED = { error: 'REPLACED', message: 'A newer connection of this node has come' }

/** Two agents at the same time: another journal or another boot than those of a connection whose agent still answers. */
async function isElsewhere(present: Session, hello: FrameOf<'hello'>): Promise<boolean> {
  const { hello: known } = present
  if (!present.ready || known === undefined) return false
  const [there, here] = [known.machine?.bootId, hello.machine?.bootId]
  const sameBoot = there === undefined || here === undefined || there === here
  return !(sameBoot && known.journalId === hello.journalId) && (await present.answers())
}

function stopping(): PanelError {
  return new PanelError('SHUTTING_DOWN', 'The daemon is stopping; try again in a moment', {
    meta: { retryAfterSeconds: 2 },
  })
}
