import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Clock } from '../../shared/kernel/time.ts'
import {
  type AgentFrame,
  DaemonFrame,
  GATEWAY_CLOSE,
  GATEWAY_LIMITS,
  GATEWAY_PROTOCOL,
} from '../../shared/protocol/frames.ts'
import { ConsoleFeeds } from '../console/console.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { CommandFrame } from '../server/commands.ts'
import type { Journal } from '../state/journal.ts'
import { watchLiveness } from './liveness.ts'
import { ProgressPace } from './progress-pace.ts'
import type { RequestContext } from './request-handler.ts'
import { SocketSender } from './socket-sender.ts'

/** What a session needs of the agent. */
export interface SessionDeps {
  readonly clock: Clock
  readonly log: AgentLog
  readonly journal: Journal
  hello(): Promise<AgentFrame>
  /** In parts, in their order. */
  snapshot(): Promise<readonly AgentFrame[]>
  command(frame: CommandFrame): void
  /** Answers a request; never rejects. */
  request(frame: FrameOf<'request'>, context: RequestContext): Promise<AgentFrame>
  /** Nobody wants a command any more. */
  cancel(commandId: string): void
  /** The daemon has taken the snapshot, and says what it knows better. Runs before the first command of the connection. */
  ready(answer: SnapshotAnswer): void
}

/** What the daemon says of a snapshot. */
export type SnapshotAnswer = Extract<DaemonFrame, { type: 'snapshot.ok' }>

/** How a session ended. */
export interface SessionEnd {
  readonly code: number
  readonly readyMs: number
}

const LEAVE_MS = 1000

type Phase = 'hello' | 'snapshot' | 'ready'

/** One connection, from the hello to its end: handshake, events upwards, commands and requests downwards. */
export class Session {
  readonly sender: SocketSender
  readonly #socket: WebSocket
  readonly #deps: SessionDeps
  readonly #closed = new AbortController()
  readonly #feeds: ConsoleFeeds
  /** Requests that are being answered. */
  readonly #requests = new Map<string, AbortController>()
  #phase: Phase = 'hello'
  #readyAt: number | undefined

  constructor(socket: WebSocket, deps: SessionDeps) {
    this.#socket = socket
    this.#deps = deps
    this.sender = new SocketSender(socket)
    const channel = { send: (frame: AgentFrame) => this.sender.sendInTurn(frame), closed: this.#closed.signal }
    this.#feeds = new ConsoleFeeds(channel, deps.clock, deps.log)
  }

  get ready(): boolean {
    return this.#phase === 'ready' && this.sender.open
  }

  /** Runs until the connection ends; `signal` closes it. */
  async run(stream: Duplex, signal: AbortSignal): Promise<SessionEnd> {
    const { clock, log } = this.#deps
    if (this.#socket.readyState === this.#socket.CLOSED) return { code: 1006, readyMs: 0 }
    const ended = new Promise<number>((resolve) => this.#socket.once('close', resolve))
    const leave = (): void => {
      this.#socket.close(1001)
      // A daemon that does not answer the close must not hold up the agent's end.
      void clock.sleep(LEAVE_MS, this.#closed.signal).then(() => this.#socket.terminate())
    }
    signal.addEventListener('abort', leave)
    this.#socket.on('message', (data, isBinary) => this.#receive(data.toString(), isBinary))
    const onDead = (): void => log.warn({}, 'daemon heartbeat timed out (30 s), closing connection')
    void watchLiveness(this.#socket, stream, { clock, signal: this.#closed.signal, onDead })
    void this.#guardHandshake()
    void this.#attempt(async () => this.sender.send(await this.#deps.hello()))
    const code = await ended
    signal.removeEventListener('abort', leave)
    this.#closed.abort()
    return { code, readyMs: this.#readyAt === undefined ? 0 : clock.monotonicMs() - this.#readyAt }
  }

  /** The handshake must not hang on a daemon that says nothing. */
  async #guardHandshake(): Promise<void> {
    await this.#deps.clock.sleep(GATEWAY_LIMITS.deadMs, this.#closed.signal)
    if (this.#phase !== 'ready') this.#socket.terminate()
  }

  #receive(text: string, isBinary: boolean): void {
    let value: unknown
    try {
      value = isBinary ? undefined : JSON.parse(text)
    } catch {
      value = undefined // reported below: JSON itself has no undefined
    }
    const parsed = DaemonFrame.safeParse(value)
    if (value === undefined) this.#protocolError('a frame is no JSON text')
    else if (parsed.success) this.#handle(parsed.data)
    else if (!isUnknownType(value)) this.#refuse(value, parsed.error.issues[0])
  }

  #refuse(value: unknown, issue: { path: PropertyKey[]; message: string } | undefined): void {
    // A request of an unknown form is answered, so that nobody waits for it in vain.
    const id = requestId(value)
    if (id !== undefined) {
      const error = { code: 'UNSUPPORTED' as const, message: 'This agent does not know the request' }
      void this.#attempt(() => this.sender.send({ type: 'reply', id, error, result: null }))
      return
    }
    this.#deps.log.error(
      { at: issue?.path.map(String).join('.'), problem: issue?.message },
      'ignoring invalid frame from daemon',
    )
  }

  #handle(frame: DaemonFrame): void {
    if (frame.type === 'error') {
      this.#deps.log.warn({ error: frame.error, reason: frame.message }, 'daemon reported an error')
    } else if (frame.type === 'welcome') {
      void this.#attempt(() => this.#welcome(frame))
    } else if (frame.type === 'snapshot.ok') {
      this.#begin(frame)
    } else if (this.#phase !== 'ready') {
      this.#protocolError('an order came before the snapshot was taken')
    } else this.#handleReady(frame)
  }

  #handleReady(frame: Exclude<DaemonFrame, { type: 'error' | 'welcome' | 'snapshot.ok' }>): void {
    if (frame.type === 'event.ack') this.#deps.journal.acknowledge(frame.seq)
    else if (frame.type === 'command') this.#deps.command(frame)
    else if (frame.type === 'console.ack') this.#feeds.acknowledge(frame)
    else if (frame.type === 'request.cancel') this.#requests.get(frame.id)?.abort()
    else if (frame.type === 'command.cancel') this.#deps.cancel(frame.id)
    else void this.#attempt(() => this.#answer(frame))
  }

  async #answer(frame: FrameOf<'request'>): Promise<void> {
    const { id } = frame
    const cancelled = new AbortController()
    this.#requests.set(id, cancelled)
    const progress = new ProgressPace(this.#deps.clock, (report) =>
      this.sender.sendIfIdle({ type: 'request.progress', id, progress: report }),
    )
    try {
      const reply = await this.#deps.request(frame, {
        feeds: this.#feeds,
        signal: AbortSignal.any([cancelled.signal, this.#closed.signal]),
        progress: (report) => progress.report(report),
      })
      // The connection may be gone with whoever asked.
      if (!this.#closed.signal.aborted) await this.sender.send(reply)
    } finally {
      progress.end()
      this.#requests.delete(id)
    }
  }

  async #welcome(frame: Extract<DaemonFrame, { type: 'welcome' }>): Promise<void> {
    const { journal } = this.#deps
    if (this.#phase !== 'hello') {
      this.#protocolError('a second welcome')
      return
    }
    if (frame.protocol !== GATEWAY_PROTOCOL) {
      this.#socket.close(GATEWAY_CLOSE.version, 'unknown protocol')
      return
    }
    this.#phase = 'snapshot'
    if (frame.eventAck > journal.outbox.lastSeq) await journal.renumber(frame.eventAck + 1)
    else journal.acknowledge(frame.eventAck)
    for (const part of await this.#deps.snapshot()) await this.sender.send(part)
  }

  #begin(answer: SnapshotAnswer): void {
    const { unknown } = answer
    if (this.#phase !== 'snapshot') {
      this.#protocolError('an answer to a snapshot that was not sent')
      return
    }
    this.#phase = 'ready'
    this.#readyAt = this.#deps.clock.monotonicMs()
    if (unknown.length > 0) {
      this.#deps.log.warn({ count: unknown.length, servers: unknown.slice(0, 20) }, 'daemon does not know some servers')
    }
    this.#deps.ready(answer)
    void this.#attempt(() => this.#pumpEvents())
  }

  /** Sends the outbox in order; each waits for the network, so that a long outbox does not fill the memory. */
  async #pumpEvents(): Promise<void> {
    const { journal, clock } = this.#deps
    let sent = journal.outbox.ack
    while (!this.#closed.signal.aborted) {
      const next = journal.outbox.next(sent)
      if (next === undefined) {
        await journal.outbox.changed(this.#closed.signal)
        continue
      }
      const ageMs = Math.max(0, clock.nowMs() - next.atMs)
      await this.sender.send({ type: 'event', seq: next.seq, ageMs, event: next.event })
      sent = next.seq
    }
  }

  /** Work for this connection: when it fails while the connection stands, the connection is given up and made anew. */
  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (this.#closed.signal.aborted || !this.sender.open) return
      this.#deps.log.error({ err: errorText(error) }, 'daemon connection failed')
      this.#socket.terminate()
    }
  }

  #protocolError(problem: string): void {
    this.#deps.log.error({ problem }, 'daemon violated the protocol, closing connection')
    this.#socket.close(GATEWAY_CLOSE.protocolError, problem)
  }
}

const KNOWN_TYPES: ReadonlySet<unknown> = new Set(DaemonFrame.options.map((option) => option.shape.type.value))

type FrameOf<T extends DaemonFrame['type']> = Extract<DaemonFrame, { type: T }>

function isUnknownType(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'type' in value && !KNOWN_TYPES.has(value.type)
}

function requestId(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || !('type' in value) || !('id' in value)) return undefined
  return value.type === 'request' && typeof value.id === 'string' ? value.id : undefined
}
