import { once } from 'node:events'
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import {
  BASE_CAPABILITIES,
  type Capability,
  type InputOf,
  type RequestDefinition,
  type ResultOf,
} from '../../shared/protocol/define.ts'
import {
  type AgentEvent,
  type AgentFrame,
  type DaemonFrame,
  GATEWAY_CLOSE,
  GATEWAY_LIMITS,
  GATEWAY_PROTOCOL,
} from '../../shared/protocol/frames.ts'
import type { NodeHealth } from '../../shared/protocol/node.ts'
import { COMMANDS, type CommandOp } from '../../shared/protocol/server.ts'
import { specCapabilities } from '../../shared/protocol/spec-capabilities.ts'
import type { Log } from '../core/log.ts'
import type { Db } from '../db/db.ts'
import { isStorageFailure } from '../db/sqlite/failures.ts'
import { CommandPump } from './command-pump.ts'
import { FrameRate, TOO_MANY_FRAMES } from './frame-rate.ts'
import type { GatewayMetrics } from './gateway-metrics.ts'
import type { FrameOf, GatewayHandlers } from './handlers.ts'
import { Inbox } from './inbox.ts'
import { watchLiveness } from './liveness.ts'
import { PendingRequests, type RequestOptions } from './pending.ts'
import { SnapshotParts } from './snapshot-parts.ts'
import type { Turns } from './turns.ts'
import { readFrame } from './wire.ts'

/** While more than this waits for an agent, it is sent no further commands. */
const MOST_WAITING_BYTES = 1024 * 1024
/** An agent that takes nothing while this much waits for it is given up. */
const MOST_UNSENT_BYTES = 8 * 1024 * 1024
const CLOSE_MS = 1000

/** What a session needs of the gateway. */
export interface SessionDeps {
  readonly db: Db
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly handlers: GatewayHandlers
  readonly metrics: GatewayMetrics
  /** How many frames an agent may send in a second. */
  framesPerSecond(): number
  /** Receives bugs, beside the log. */
  onError(error: unknown): void
  /** The agent has said who it is. Resolves when this connection may go on as the node's, with false when it may not. */
  claim(hello: FrameOf<'hello'>): Promise<boolean>
  /** The handshake is over; resolves when that is written down. */
  ready(): Promise<void>
  /** The turns of handshakes, over all nodes. */
  readonly turns: Turns
}

const PONG_MS = 2000

type Phase = 'hello' | 'welcomed' | 'snapshot' | 'ready'

/** One connection of an authenticated agent: handshake, events and lines upwards, commands and requests downwards. */
export class Session {
  readonly nodeId: string
  readonly #socket: WebSocket
  readonly #deps: SessionDeps
  readonly #closed = new AbortController()
  readonly #requests: PendingRequests
  readonly #pump: CommandPump
  readonly #parts = new SnapshotParts()
  readonly #rate: FrameRate
  #stream: Duplex | undefined
  #isGathering = false
  #inbox: Inbox | undefined
  #hello: FrameOf<'hello'> | undefined
  #phase: Phase = 'hello'
  /** Messages of the handshake that wait for their turn, and the last of them. */
  #early = 0
  #earlier: Promise<void> = Promise.resolve()
  #step: Promise<void> = Promise.resolve()
  #paused = false
  /** When the last byte came, by the wall clock. */
  heardAt: number
  /** The connection before this one stood when this one came, and belonged to another agent. */
  contested = false
  health: { readonly health: NodeHealth; readonly atMs: number } | undefined

  constructor(nodeId: string, socket: WebSocket, deps: SessionDeps) {
    this.nodeId = nodeId
    this.#socket = socket
    this.#deps = deps
    this.heardAt = deps.clock.nowMs()
    this.#rate = new FrameRate(deps.clock)
    this.#requests = new PendingRequests(deps.clock, (frame) => this.send(frame))
    const count = (kind: 'sent' | 'resent'): void => deps.metrics.command(kind)
    this.#pump = new CommandPump({
      ...deps,
      nodeId,
      count,
      send: (frame) => {
        this.#rate.commanded()
        this.#sendText(frame)
      },
      room: (signal) => this.#room(signal),
      refusal: (command) => this.#commandRefusal(command),
    })
  }

  get ready(): boolean {
    return this.#phase === 'ready' && this.#socket.readyState === this.#socket.OPEN
  }

  /** What the agent has said of itself. */
  get hello(): FrameOf<'hello'> | undefined {
    return this.#hello
  }

  /** Whether the agent at the other end is there, by a ping; one that is not read now counts as there. */
  async answers(): Promise<boolean> {
    if (this.#paused) return true
    const over = new AbortController()
    const pong = new Promise<boolean>((resolve) => this.#socket.once('pong', () => resolve(true)))
    this.#socket.ping(undefined, undefined, () => {}) // a failed ping shows as silence
    const silent = this.#deps.clock.sleep(PONG_MS, AbortSignal.any([over.signal, this.#closed.signal]))
    const answered = await Promise.race([pong, silent.then(() => false)])
    over.abort()
    return answered
  }

  /** Runs to the end of the connection and of what it was storing. */
  async run(stream: Duplex): Promise<void> {
    const { clock, log } = this.#deps
    const { nodeId } = this
    const signal = this.#closed.signal
    this.#stream = stream
    const ended = new Promise<void>((resolve) => this.#socket.once('close', () => resolve()))
    this.#socket.on('error', (error) => log.warn({ nodeId, err: error }, 'node connection failed'))
    this.#socket.on('message', (data, isBinary) => this.#receive(data, isBinary))
    void watchLiveness(this.#socket, stream, {
      clock,
      signal,
      onByte: () => {
        this.heardAt = clock.nowMs()
      },
      onDead: () => log.warn({ nodeId }, 'node heartbeat timed out (30 s), closing connection'),
      isPaused: () => this.#paused,
    })
    void this.#awaitHello()
    if (this.#socket.readyState !== this.#socket.CLOSED) await ended
    this.#closed.abort()
    this.#requests.failAll(offline())
    await this.#step.catch(() => undefined) // reported where it failed
    await this.#inbox?.close()
  }

  /** Asks and waits; see PendingRequests. Rejects with AGENT_VERSION, and sends nothing, when the agent does not know it. */
  async request<D extends RequestDefinition>(
    definition: D,
    input: InputOf<D>,
    options: RequestOptions<D>,
  ): Promise<ResultOf<D>> {
    if (!this.ready) throw offline()
    const { op, capability } = definition
    if (!this.can(capability)) {
      throw new PanelError('AGENT_VERSION', this.#tooOld(capability), {
        meta: { capability, agentVersion: this.#hello?.agentVersion },
      })
    }
    return await this.#requests.request(definition, { op, ...input }, options)
  }

  /** Whether the agent can do something, as it says itself. */
  can(capability: Capability): boolean {
    return (this.#hello?.capabilities ?? BASE_CAPABILITIES).includes(capability)
  }

  #tooOld(capability: Capability): string {
    return `The agent of this node (version ${this.#hello?.agentVersion ?? 'unknown'}) cannot do that (${capability}); update the agent`
  }

  /** Why the agent cannot do what needs these; `undefined`: it can. */
  refusalOf(capabilities: readonly Capability[]): string | undefined {
    const missing = capabilities.find((capability) => !this.can(capability))
    return missing === undefined ? undefined : this.#tooOld(missing)
  }

  #commandRefusal(command: CommandOp): string | undefined {
    const capability = COMMANDS.find(({ op }) => op === command.op)?.capability
    const needed = 'spec' in command ? specCapabilities(command.spec) : []
    const refusal = this.refusalOf(capability === undefined ? needed : [capability, ...needed])
    return refusal ?? this.#mountsRefusal(command) ?? this.#consoleRefusal(command)
  }

  /** An older agent would start the game without the folders that it is to have. */
  #mountsRefusal(command: CommandOp): string | undefined {
    const hasMounts = 'spec' in command && command.op !== 'apply' && (command.spec.mounts ?? []).length > 0
    return hasMounts && !this.can('mounts@1') ? this.#tooOld('mounts@1') : undefined
  }

  /** Of a server with another console than pipes an older agent would run the game with pipes, and say nothing. */
  #consoleRefusal(command: CommandOp): string | undefined {
    const kind = 'spec' in command ? command.spec.console.input?.kind : undefined
    const starts = command.op === 'start' || command.op === 'restart' || (command.op === 'install' && command.thenStart)
    // A console without input is one whose input nobody uses, which the daemon can see to itself.
    if (!starts || kind === undefined || kind === 'none' || this.can('console-kinds@1')) return undefined
    return `Its template has the console ${kind}. ${this.#tooOld('console-kinds@1')}`
  }

  wake(): void {
    this.#pump.wake()
  }

  /** Sends a frame, in one write with all that are sent in the same turn: a write for each would cost more than all else about them. */
  send(frame: DaemonFrame): void {
    this.#sendText(JSON.stringify(frame))
  }

  #sendText(frame: string): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return
    this.#gather()
    this.#socket.send(frame, () => {}) // a failure is followed by the close
    if (this.#socket.bufferedAmount <= MOST_UNSENT_BYTES) return
    this.#deps.log.warn({ nodeId: this.nodeId }, 'node does not read its socket, closing connection')
    this.#socket.terminate()
  }

  /** `undefined`: there is. A node that is slow to read gets what is queued for it as it reads, instead of losing its connection. */
  #room(signal: AbortSignal): Promise<void> | undefined {
    const stream = this.#stream
    if (stream === undefined || this.#socket.bufferedAmount <= MOST_WAITING_BYTES) return undefined
    return once(stream, 'drain', { signal }).then(
      () => undefined,
      () => undefined, // it was closed, which ends all that is sent
    )
  }

  #gather(): void {
    const stream = this.#stream
    if (this.#isGathering || stream === undefined) return
    this.#isGathering = true
    stream.cork()
    process.nextTick(() => {
      this.#isGathering = false
      stream.uncork()
    })
  }

  /** Ends the connection with a code; `reason` goes ahead as an error frame. One that does not answer is cut after 1 s. */
  close(code: number, reason?: { readonly error: string; readonly message: string }): void {
    if (reason !== undefined) this.send({ type: 'error', ...reason })
    this.#socket.close(code, reason?.error ?? '')
    this.#resume()
    void this.#deps.clock.sleep(CLOSE_MS, this.#closed.signal).then(() => this.#socket.terminate())
  }

  async #awaitHello(): Promise<void> {
    await this.#deps.clock.sleep(GATEWAY_LIMITS.helloMs, this.#closed.signal)
    if (this.#phase !== 'hello' || this.#hello !== undefined || this.#early > 0 || this.#closed.signal.aborted) return
    this.#protocolError('no hello within 5 s')
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#closed.signal.aborted || this.#socket.readyState !== this.#socket.OPEN) return
    const most = this.#deps.framesPerSecond()
    if (!this.#rate.take(most)) {
      this.#deps.log.warn({ nodeId: this.nodeId, most }, 'node sends too many frames, closing connection')
      const message = `More than ${most} frames in a second; connect again`
      this.close(TOO_MANY_FRAMES, { error: 'RATE_LIMITED', message })
      return
    }
    if (this.#phase === 'ready' && this.#early === 0) this.#read(data, isBinary)
    else this.#readInTurn(data, isBinary)
  }

  /** A snapshot takes milliseconds to read; nothing more is taken from the socket meanwhile. */
  #readInTurn(data: RawData, isBinary: boolean): void {
    this.#early += 1
    this.#pause()
    this.#earlier = this.#earlier.then(async () => {
      await this.#deps.turns.run(() => this.#read(data, isBinary)).catch((error: unknown) => this.#fail(error))
      this.#early -= 1
      if (this.#early === 0) this.#resume()
    })
  }

  #read(data: RawData, isBinary: boolean): void {
    if (this.#closed.signal.aborted) return
    if (isBinary) {
      this.#protocolError('a binary frame')
      return
    }
    const incoming = readFrame(data.toString())
    if (incoming.kind === 'broken') {
      this.#protocolError(incoming.problem)
      return
    }
    if (incoming.kind === 'skipped') {
      this.#deps.metrics.skipped()
      if (incoming.eventSeq !== undefined) this.#addEvent(incoming.eventSeq, undefined, 0)
      return
    }
    const { frame } = incoming
    this.#deps.metrics.frame(frame.type)
    if (frame.type === 'hello') this.#takeHello(frame)
    else if (frame.type === 'snapshot') this.#takeSnapshot(frame)
    else if (this.#phase !== 'ready') this.#protocolError(`${frame.type} before the handshake was over`)
    else {
      try {
        this.#take(frame)
      } catch (error) {
        this.#fail(error)
      }
    }
  }

  #takeHello(frame: FrameOf<'hello'>): void {
    if (this.#hello !== undefined) {
      this.#protocolError('a second hello')
      return
    }
    this.#hello = frame
    if (frame.protocol !== GATEWAY_PROTOCOL) {
      const message = `This daemon speaks protocol ${GATEWAY_PROTOCOL}, the agent ${frame.protocol}; update the older one`
      this.close(GATEWAY_CLOSE.version, { error: 'AGENT_VERSION', message })
      return
    }
    this.#next(async () => {
      const { db, clock, log, handlers, version } = this.#deps
      if (!(await this.#deps.claim(frame)) || this.#closed.signal.aborted) return
      const known = await handlers.onHello(this.nodeId, frame)
      if (known === undefined)
        return this.close(GATEWAY_CLOSE.keyRevoked, { error: 'UNAUTHENTICATED', message: 'This node was removed' })
      this.#inbox = new Inbox(
        {
          nodeId: this.nodeId,
          journalId: frame.journalId,
          db,
          clock,
          log,
          handlers,
          acknowledge: (seq) => this.send({ type: 'event.ack', seq }),
          accepted: (ids) => this.#pump.accepted(ids),
          pause: (paused) => (paused ? this.#pause() : this.#resume()),
          failed: (error) => this.#storeFailed(error),
          onError: this.#deps.onError,
        },
        known.eventAck,
      )
      this.#phase = 'welcomed'
      this.send({ type: 'welcome', protocol: GATEWAY_PROTOCOL, daemonVersion: version, eventAck: known.eventAck })
    })
  }

  #takeSnapshot(frame: FrameOf<'snapshot'>): void {
    if (this.#phase !== 'welcomed') {
      this.#protocolError('a snapshot out of turn')
      return
    }
    const snapshot = this.#parts.add(frame)
    if (snapshot === undefined) return
    if (snapshot === 'endless') {
      this.#protocolError('a snapshot without an end')
      return
    }
    this.#phase = 'snapshot'
    this.#next(async () => {
      const { servers: reports, asOf = this.#hello?.lastEvent ?? 0 } = snapshot
      const answer = await this.#deps.turns.run(async () => {
        const taken = await this.#deps.handlers.onSnapshot(this.nodeId, snapshot)
        await this.#inbox?.addReports({ reports, asOf, contested: this.contested }, snapshot.asOf !== undefined)
        return taken
      })
      if (this.#closed.signal.aborted) return
      this.#phase = 'ready'
      this.send({ type: 'snapshot.ok', ...answer })
      await this.#deps.ready()
      void this.#pump.run(this.#closed.signal)
    })
  }

  #take(frame: Exclude<AgentFrame, { type: 'hello' | 'snapshot' }>): void {
    const { handlers, clock } = this.#deps
    if (frame.type === 'event') this.#addEvent(frame.seq, frame.event, frame.ageMs)
    else if (frame.type === 'command.accepted') {
      handlers.onAccepted(this.nodeId, frame.id)
      this.#inbox?.add({ kind: 'accepted', id: frame.id })
    } else if (frame.type === 'reply') this.#requests.settle(frame)
    else if (frame.type === 'request.progress') this.#requests.progress(frame)
    else if (frame.type === 'command.progress') handlers.onCommandProgress(this.nodeId, frame)
    else if (frame.type === 'console') handlers.onConsole(this.nodeId, frame)
    else if (frame.type === 'console.gap') handlers.onConsoleGap(this.nodeId, frame)
    else if (frame.type === 'stats') handlers.onStats(this.nodeId, frame.servers)
    else {
      this.health = { health: frame.health, atMs: clock.nowMs() }
      handlers.onHealth(this.nodeId, frame.health)
    }
  }

  #addEvent(seq: number, event: AgentEvent | undefined, ageMs: number): void {
    const at = { receivedMs: this.#deps.clock.nowMs(), ageMs }
    if (event?.type === 'server.state') this.#deps.handlers.onLive(this.nodeId, event.report, at)
    this.#inbox?.add({ kind: 'event', seq, event, at })
  }

  /** The steps of the handshake, one after the other; a failure ends the connection. */
  #next(step: () => Promise<void>): void {
    this.#step = this.#step.then(async () => {
      if (this.#closed.signal.aborted) return
      try {
        await step()
      } catch (error) {
        this.#fail(error)
      }
    })
  }

  #fail(error: unknown): void {
    if (this.#closed.signal.aborted) return
    const { nodeId } = this
    this.#deps.log.error({ nodeId, err: error }, 'cannot store node frame, closing connection')
    this.#deps.onError(error)
    this.close(1011, { error: 'INTERNAL_ERROR', message: 'The daemon could not store what was sent; connect again' })
  }

  /**
   * While nothing can be written, the connection stays for consoles, stop and kill. Its inbox takes and acknowledges nothing
   * more: the agent sends all of it again over the connection that follows when there is room.
   */
  #storeFailed(error: unknown): void {
    if (this.#closed.signal.aborted) return
    if (!isStorageFailure(error)) {
      this.#fail(error)
      return
    }
    this.#deps.log.warn({ nodeId: this.nodeId, err: error }, 'cannot store node report, storage is failing')
    this.#resume()
    this.#deps.handlers.onUnstored(this.nodeId)
  }

  #protocolError(problem: string): void {
    this.#deps.log.warn({ nodeId: this.nodeId, problem }, 'node violated the protocol, closing connection')
    this.#deps.metrics.protocolError()
    this.close(GATEWAY_CLOSE.protocolError, { error: 'PROTOCOL_ERROR', message: problem.slice(0, 500) })
  }

  #pause(): void {
    this.#paused = true
    this.#socket.pause()
  }

  #resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#socket.resume()
  }
}

/** The failure of everything that needs a node which is not connected. */
export function offline(): PanelError {
  return new PanelError('NODE_OFFLINE', 'The node of this server is not connected; try again when it is back')
}
