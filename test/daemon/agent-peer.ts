import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { type ClientOptions, WebSocket } from 'ws'
import type { ConsoleLine } from '../../src/shared/protocol/console.ts'
import { type AgentEvent, type AgentFrame, GATEWAY_PATH } from '../../src/shared/protocol/frames.ts'
import type { OrphanReport } from '../../src/shared/protocol/node.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { type AgentRequest, readSent, type SentFrame } from '../protocol/wire.ts'

type DaemonFrameOf<T extends SentFrame['type']> = Extract<SentFrame, { type: T }>

/** What a refused upgrade was answered. */
export interface Refused {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: { success: boolean; code: string; error: string; requestId: string }
}

/** What a peer says of itself. */
export interface PeerHello {
  readonly journalId?: string
  readonly lastEvent?: number
  readonly acknowledged?: number
  readonly protocol?: number
  readonly addresses?: string[]
  readonly machine?: { id: string | null; bootId: string }
  readonly journalDamaged?: boolean
  readonly capabilities?: string[]
  /** As they stand on the wire, also what no schema of this version knows. */
  readonly runtimes?: readonly RuntimeSaid[]
}

/** The report of a runtime by an agent of any version. */
export interface RuntimeSaid {
  readonly name: 'process' | 'docker'
  readonly ok: boolean
  readonly reason: string | null
  readonly isolation?: string
  readonly mounts?: string
  readonly limits?: string
}

/** What a peer says that it has. */
export interface PeerSnapshot {
  readonly servers?: ServerReport[]
  readonly commands?: string[]
  readonly orphans?: string[]
  readonly gone?: { serverId: string; generation: number }[]
  readonly asOf?: number
}

/** A console log as an agent keeps it, with a start that can be cut off. */
export class PeerLog {
  epoch: string
  lines: ConsoleLine[] = []
  first = 1

  constructor(epoch: string) {
    this.epoch = epoch
  }

  get last(): number {
    return this.first + this.lines.length - 1
  }

  append(count: number, text = (seq: number) => `line ${seq}`): ConsoleLine[] {
    const added: ConsoleLine[] = []
    for (let i = 0; i < count; i++) {
      const seq = this.last + 1
      const line: ConsoleLine = [
        seq,
        1_700_000_000_000 + seq * 1000,
        seq % 10 === 0 ? 'stderr' : 'stdout',
        text(seq),
        0,
      ]
      this.lines.push(line)
      added.push(line)
    }
    return added
  }

  /** Forgets the oldest lines, as a full log does. */
  trim(count: number): void {
    this.lines.splice(0, count)
    this.first += count
  }

  after(seq: number, max: number): ConsoleLine[] {
    return this.lines.slice(Math.max(0, seq + 1 - this.first)).slice(0, max)
  }
}

/** The agent's side of the gateway as a test speaks it, over a real WebSocket. */
export class AgentPeer {
  readonly frames: SentFrame[] = []
  readonly requests: AgentRequest[] = []
  readonly logs = new Map<string, PeerLog>()
  readonly typed: string[] = []
  closeCode: number | undefined
  /** Requests with these operations get no answer. */
  readonly silent = new Set<string>()
  /** What the answer to a request waits for. */
  waitsFor: (request: AgentRequest) => Promise<void> | undefined = () => undefined
  /** Servers that the peer has, by id: with their specifications, or `null` for left-over folders. */
  readonly holdings = new Map<string, ServerSpec | null>()
  /** Left-over folders that it lists in each answer, with the word that there are more. */
  repeats: readonly string[] = []
  /** The processes of those that run. */
  readonly running = new Map<string, number>()
  /** Servers with a subscription, and the last line sent. */
  readonly subscribed = new Map<string, number>()
  readonly socket: WebSocket
  #seq = 0
  readonly #waiting = new Set<() => void>()

  /** Opens the connection; throws {@link Refused} when the daemon does not let it in. */
  static async connect(url: string, nodeId: string, key: string, options: ClientOptions = {}): Promise<AgentPeer> {
    const target = new URL(GATEWAY_PATH, url)
    target.protocol = 'ws:'
    const headers = { 'x-node-id': nodeId, 'x-node-api-key': key, ...options.headers }
    const socket = new WebSocket(target, 'panel-agent.v1', { ...options, headers })
    const peer = new AgentPeer(socket)
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
      socket.once('unexpected-response', (_, response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part
        })
        response.on('end', () => {
          const refused: Refused = {
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: JSON.parse(text),
          }
          reject(Object.assign(new Error(`refused ${refused.status}`), { refused }))
        })
      })
    })
    return peer
  }

  private constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('error', () => {}) // a refusal and a cut are looked at by the tests themselves
    socket.on('message', (data) => {
      const frame = this.#parse(data.toString())
      this.frames.push(frame)
      if (frame.type === 'request') this.#take(frame.id, frame.request)
      this.#wake()
    })
    socket.on('close', (code) => {
      this.closeCode = code
      this.#wake()
    })
  }

  /** What an agent would not understand is an error, and the end of the connection: nobody waits for it in vain. */
  #parse(text: string): SentFrame {
    try {
      return readSent(JSON.parse(text))
    } catch (cause) {
      this.socket.terminate()
      throw new Error(`the daemon sent what no agent understands: ${text.slice(0, 500)}`, { cause })
    }
  }

  send(frame: AgentFrame): void {
    this.sendRaw(frame)
  }

  sendRaw(frame: object): void {
    this.socket.send(JSON.stringify(frame))
  }

  /** Hello and snapshot, until the daemon has taken both. Returns its eventAck. */
  async enter(about: PeerHello & PeerSnapshot = {}): Promise<number> {
    this.hello(about)
    const { eventAck } = await this.until('the welcome', () => this.of('welcome')[0])
    this.#seq = eventAck
    this.snapshot(about)
    await this.until('the snapshot to be taken', () => this.of('snapshot.ok')[0])
    return eventAck
  }

  snapshot({ servers = [], commands = [], orphans = [], gone, asOf }: PeerSnapshot): void {
    const known = { ...(gone === undefined ? {} : { gone }), ...(asOf === undefined ? {} : { asOf }) }
    this.send({ type: 'snapshot', servers, commands, orphans, ...known })
  }

  hello(about: PeerHello = {}): void {
    const { journalId = 'journal-1', lastEvent = 0, protocol = 1, addresses = ['127.0.0.1'] } = about
    const { acknowledged, machine, journalDamaged, capabilities } = about
    const { runtimes = [{ name: 'process', ok: true, reason: null }] } = about
    this.sendRaw({
      type: 'hello',
      protocol,
      journalId,
      lastEvent,
      agentVersion: '9.9.9-test',
      bootId: 'boot',
      hostname: 'box',
      os: 'Linux test',
      arch: 'x64',
      cpus: 2,
      memoryMb: 1024,
      diskMb: 1024,
      addresses,
      runtimes: runtimes.map((runtime) => ({ version: '1', capabilities: [], ...runtime })),
      ...(acknowledged === undefined ? {} : { acknowledged }),
      ...(machine === undefined ? {} : { machine }),
      ...(capabilities === undefined ? {} : { capabilities }),
      ...(journalDamaged === undefined ? {} : { journalDamaged }),
    })
  }

  event(event: AgentEvent, seq = ++this.#seq): number {
    this.#seq = Math.max(this.#seq, seq)
    this.send({ type: 'event', seq, ageMs: 0, event })
    return seq
  }

  /** Answers a command as an agent does: accepted, then done. */
  finish(command: DaemonFrameOf<'command'>): number {
    const { id, serverId } = command
    this.send({ type: 'command.accepted', id })
    return this.event({ type: 'command.done', commandId: id, serverId, ok: true, noop: false, error: null })
  }

  of<T extends SentFrame['type']>(type: T): DaemonFrameOf<T>[] {
    return this.frames.filter((frame): frame is DaemonFrameOf<T> => frame.type === type)
  }

  /** The log of a server, made on first use; the peer knows no server without one. */
  log(serverId: string, epoch = 'epocha'): PeerLog {
    const known = this.logs.get(serverId) ?? new PeerLog(epoch)
    this.logs.set(serverId, known)
    return known
  }

  /** Writes lines to a server's log, and sends them when somebody has subscribed. */
  say(serverId: string, count: number, text?: (seq: number) => string): void {
    this.log(serverId).append(count, text)
    this.flush(serverId)
  }

  flush(serverId: string): void {
    const sent = this.subscribed.get(serverId)
    const log = this.log(serverId)
    if (sent === undefined || sent >= log.last) return
    if (sent + 1 < log.first) {
      this.send({ type: 'console.gap', serverId, epoch: log.epoch, from: sent + 1, to: log.first - 1 })
    }
    for (let after = sent; after < log.last; ) {
      const lines = log.after(after, 1000)
      this.send({ type: 'console', serverId, epoch: log.epoch, lines })
      after = lines.at(-1)?.[0] ?? log.last
    }
    this.subscribed.set(serverId, log.last)
  }

  async until<T>(what: string, look: () => T | undefined | false, ms = 15_000): Promise<T> {
    const deadline = performance.now() + ms
    for (;;) {
      const found = look()
      if (found !== undefined && found !== false) return found
      const left = deadline - performance.now()
      if (left <= 0)
        throw new Error(
          `Waited in vain for ${what}; closed ${this.closeCode}; last: ${JSON.stringify(this.frames.slice(-5))}`,
        )
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer)
          this.#waiting.delete(done)
          resolve()
        }
        const timer = setTimeout(done, Math.min(left, 200))
        this.#waiting.add(done)
      })
    }
  }

  async leave(): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return
    this.socket.close(1001)
    await once(this.socket, 'close')
  }

  #wake(): void {
    for (const done of [...this.#waiting]) done()
  }

  #orphan(serverId: string): OrphanReport {
    const name = this.holdings.get(serverId)?.name ?? null
    const pid = this.running.get(serverId) ?? null
    return { serverId, name, power: pid === null ? 'offline' : 'running', pid, generation: 3, hasFiles: true }
  }

  #take(id: string, request: AgentRequest): void {
    this.requests.push(request)
    if (this.silent.has(request.op)) return
    const waiting = this.waitsFor(request)
    if (waiting === undefined) this.#answer(id, request)
    else void waiting.then(() => this.#answer(id, request))
  }

  #answer(id: string, request: AgentRequest): void {
    const reply = (result: unknown): void => {
      this.send({ type: 'reply', id, error: null, result })
    }
    if (request.op === 'console.input') {
      this.typed.push(...request.lines)
      reply(null)
      return
    }
    if (request.op === 'console.unsubscribe') {
      this.subscribed.delete(request.serverId)
      reply(null)
      return
    }
    if (request.op === 'orphans.list') {
      const found = [...this.holdings.keys()].filter((serverId) => !request.known.includes(serverId))
      const listed = [...this.repeats, ...found.slice(0, 500)]
      const orphans = listed.map((serverId) => this.#orphan(serverId))
      reply({ orphans, more: this.repeats.length > 0 || found.length > orphans.length })
      return
    }
    if (request.op === 'orphans.describe') {
      const spec = this.holdings.get(request.serverId) ?? null
      const at = report(request.serverId, { generation: 3, power: 'offline', pid: null, uptimeMs: null })
      const orphan = this.holdings.has(request.serverId) ? this.#orphan(request.serverId) : null
      reply({ spec, report: spec === null ? null : at, orphan })
      return
    }
    if (request.op !== 'console.subscribe' && request.op !== 'console.fetch') {
      reply(null)
      return
    }
    const log = this.logs.get(request.serverId)
    if (log === undefined) {
      this.send({ type: 'reply', id, result: null, error: { code: 'UNKNOWN_SERVER', message: 'unknown' } })
      return
    }
    const { epoch, first, last } = log
    if (request.op === 'console.fetch') {
      const after = request.after ?? Math.max(first - 1, (request.before ?? last + 1) - 1 - request.max)
      const lines = log
        .after(after, request.max)
        .filter(([seq]) => request.before === undefined || seq < request.before)
      reply({ epoch, first, last, lines })
      return
    }
    const tail = Math.max(first - 1, last - (request.tail ?? 0))
    const isNew = request.epoch !== undefined && request.epoch !== epoch
    const start = request.after === undefined ? tail : isNew ? first - 1 : Math.min(request.after, last)
    reply({ epoch, first, last })
    this.subscribed.set(request.serverId, start)
    this.flush(request.serverId)
  }
}

/** The refusal that connecting ends with. */
export async function refusedBy(connecting: Promise<AgentPeer>): Promise<Refused> {
  try {
    const peer = await connecting
    await peer.leave()
  } catch (error) {
    if (error instanceof Error && 'refused' in error) return error.refused as Refused // set above
    throw error
  }
  throw new Error('The daemon let the agent in')
}

/** What an agent says of a server. */
export function report(serverId: string, change: Partial<ServerReport> = {}): ServerReport {
  return {
    serverId,
    generation: 1,
    power: 'running',
    uptimeMs: 1000,
    pid: 4242,
    activity: null,
    installed: true,
    installError: null,
    reason: null,
    lastExit: null,
    crash: { count: 0, crashed: false, nextRestartMs: null },
    console: { epoch: 'epocha', first: 1, last: 0 },
    ...change,
  }
}
