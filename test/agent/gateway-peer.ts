import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import type { ConsoleLine } from '../../src/shared/protocol/console.ts'
import { AgentFrame, type DaemonFrame } from '../../src/shared/protocol/frames.ts'
import type { CommandOp, ServerReport } from '../../src/shared/protocol/server.ts'
import type { AgentRequest } from '../protocol/wire.ts'

type DaemonFrameOf<T extends DaemonFrame['type']> = Extract<DaemonFrame, { type: T }>
type Frame<T extends AgentFrame['type']> = Extract<AgentFrame, { type: T }>
type Done = Extract<Frame<'event'>['event'], { type: 'command.done' }>

/** The daemon's side of the gateway as a test speaks it: a client of the public interface of the agent. */
export class GatewayPeer {
  readonly url: string
  readonly frames: AgentFrame[] = []
  readonly requests: { id: string | undefined; key: string | undefined; protocol: string | undefined }[] = []
  /** What is answered instead of the 101; `undefined` lets agents in. */
  refuse: { status: number; headers?: Record<string, string> } | undefined
  /** Acknowledges events and console lines as they come. */
  acknowledges = true
  eventAck = 0
  readonly #http: Server
  readonly #sockets = new WebSocketServer({ noServer: true, maxPayload: 1024 * 1024 })
  #socket: WebSocket | undefined
  /** What is fetched at tickets, and what was delivered at them. */
  readonly offered = new Map<string, Buffer>()
  readonly delivered = new Map<string, Buffer>()
  /** Answers what is asked of an object store at a ticket, as JSON; unset: nothing is known there. */
  stores: ((ticket: string, body: unknown) => Promise<unknown>) | undefined
  /** What the peer knows better than the agent, told with the next snapshot. */
  known: Pick<DaemonFrameOf<'snapshot.ok'>, 'ended' | 'settled'> = {}
  #changed = new Set<() => void>()
  #ids = 0

  static async listen(port = 0): Promise<GatewayPeer> {
    const http = createServer()
    http.listen(port, '127.0.0.1')
    await once(http, 'listening')
    return new GatewayPeer(http)
  }

  private constructor(http: Server) {
    this.#http = http
    // The address of a listening TCP server is never a string or null.
    this.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    http.on('request', (request, response) => void this.#bulk(request, response))
    http.on('upgrade', (request, socket, head) => {
      const { headers } = request
      const one = (value: string | string[] | undefined): string | undefined =>
        Array.isArray(value) ? value[0] : value
      const [id, key] = [one(headers['x-node-id']), one(headers['x-node-api-key'])]
      this.requests.push({ id, key, protocol: headers['sec-websocket-protocol'] })
      this.#wake()
      if (this.refuse !== undefined) {
        const lines = Object.entries(this.refuse.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`)
        socket.end(
          `HTTP/1.1 ${this.refuse.status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n${lines.join('')}\r\n`,
        )
        return
      }
      this.#sockets.handleUpgrade(request, socket, head, (ws) => this.#greet(ws))
    })
  }

  async #bulk(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const ticket = request.url?.split('/').at(-1) ?? ''
    if (request.method === 'GET') {
      const content = this.offered.get(ticket)
      response.writeHead(content === undefined ? 404 : 200).end(content)
      return
    }
    const parts: Buffer[] = []
    try {
      for await (const part of request) parts.push(Buffer.from(part))
    } catch {
      return // the agent has given it up
    }
    if (request.method === 'POST') {
      await this.#answerStore(ticket, Buffer.concat(parts), response)
      return
    }
    this.delivered.set(ticket, Buffer.concat(parts))
    response.writeHead(200).end()
  }

  async #answerStore(ticket: string, body: Buffer, response: ServerResponse): Promise<void> {
    const type = { 'content-type': 'application/json' }
    try {
      const data = await this.stores?.(ticket, JSON.parse(body.toString()))
      response.writeHead(data === undefined ? 404 : 200, type)
      response.end(JSON.stringify(data === undefined ? { code: 'NOT_FOUND', error: 'no such ticket' } : { data }))
    } catch (error) {
      if (!(error instanceof PanelError)) throw error
      response.writeHead(502, type).end(JSON.stringify({ code: error.code, error: error.message }))
    }
  }

  get port(): number {
    return Number(new URL(this.url).port)
  }

  /** Ends the connection, as a network that goes away does, or with a close code. */
  cut(code?: number): void {
    if (code === undefined) this.#socket?.terminate()
    else this.#socket?.close(code)
  }

  async close(): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate()
    this.#http.close()
    this.#http.closeAllConnections()
    await once(this.#http, 'close')
  }

  send(frame: DaemonFrame): void {
    this.#socket?.send(JSON.stringify(frame))
  }

  sendRaw(text: string): void {
    this.#socket?.send(text)
  }

  nextId(): string {
    return `cmd_test${String(++this.#ids).padStart(8, '0')}${process.pid}`
  }

  /** Sends an order and waits for its end; as a daemon does, again over a new connection until it is accepted. */
  async order(serverId: string, generation: number, command: CommandOp): Promise<Done> {
    const id = this.nextId()
    let connections = this.#connections()
    const send = (): void => this.send({ type: 'command', id, serverId, generation, command })
    send()
    return await this.until(`command ${id} done`, () => {
      const isAccepted = this.of('command.accepted').some((frame) => frame.id === id)
      if (!isAccepted && this.#connections() > connections) {
        connections = this.#connections()
        send()
      }
      return this.#doneOf(id)
    })
  }

  /** How many have come as far as their snapshot. */
  #connections(): number {
    return this.of('snapshot').filter(({ more }) => more !== true).length
  }

  #doneOf(id: string): Done | undefined {
    return this.events().find((event): event is Done => event.type === 'command.done' && event.commandId === id)
  }

  async done(id: string): Promise<Done> {
    return await this.until(`command ${id} done`, () => this.#doneOf(id))
  }

  async request(request: AgentRequest, withinMs?: number): Promise<Frame<'reply'>> {
    const id = `req${++this.#ids}`
    this.send({ type: 'request', id, request })
    return await this.until(`reply to ${request.op}`, () => this.of('reply').find((frame) => frame.id === id), withinMs)
  }

  of<T extends AgentFrame['type']>(type: T): Frame<T>[] {
    return this.frames.filter((frame): frame is Frame<T> => frame.type === type)
  }

  events(): Frame<'event'>['event'][] {
    return this.of('event').map(({ event }) => event)
  }

  reports(serverId: string): ServerReport[] {
    return this.events().flatMap((event) =>
      event.type === 'server.state' && event.report.serverId === serverId ? [event.report] : [],
    )
  }

  lines(serverId: string): ConsoleLine[] {
    return this.of('console').flatMap((frame) => (frame.serverId === serverId ? frame.lines : []))
  }

  /** Waits for the newest report of a server to be as wanted. */
  async report(
    serverId: string,
    what: string,
    test: (report: ServerReport) => boolean,
    withinMs?: number,
  ): Promise<ServerReport> {
    const look = (): ServerReport | undefined => {
      const last = this.reports(serverId).at(-1)
      return last !== undefined && test(last) ? last : undefined
    }
    return await this.until(what, look, withinMs)
  }

  /** Waits for a report as wanted, which newer ones may have followed: for states that pass. */
  async passing(serverId: string, what: string, test: (report: ServerReport) => boolean): Promise<ServerReport> {
    return await this.until(what, () => this.reports(serverId).find(test))
  }

  /** Waits until `look` finds something; rejects with `what` after the deadline. */
  async until<T>(what: string, look: () => T | undefined | false, ms = 40_000): Promise<T> {
    const deadline = performance.now() + ms
    while (true) {
      const found = look()
      if (found !== undefined && found !== false) return found
      const left = deadline - performance.now()
      if (left <= 0) throw new Error(`Waited in vain for: ${what}; last frames: ${this.#lastFrames()}`)
      await this.#change(Math.min(left, 250))
    }
  }

  #lastFrames(): string {
    return this.frames
      .slice(-8)
      .map((frame) => JSON.stringify(frame).slice(0, 400))
      .join('\n')
  }

  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.#changed.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#changed.add(done)
    })
  }

  #wake(): void {
    for (const done of [...this.#changed]) done()
  }

  #greet(socket: WebSocket): void {
    this.#socket = socket
    socket.on('message', (data) => {
      const frame = AgentFrame.parse(JSON.parse(data.toString()))
      this.frames.push(frame)
      this.#answer(frame)
      this.#wake()
    })
    socket.on('close', () => this.#wake())
  }

  #answer(frame: AgentFrame): void {
    if (frame.type === 'hello') {
      this.send({ type: 'welcome', protocol: 1, daemonVersion: 'test', eventAck: this.eventAck })
    } else if (frame.type === 'snapshot' && frame.more !== true) {
      this.send({ type: 'snapshot.ok', unknown: [], ...this.known })
    } else if (frame.type === 'event' && this.acknowledges) {
      this.eventAck = Math.max(this.eventAck, frame.seq)
      this.send({ type: 'event.ack', seq: this.eventAck })
    } else if (frame.type === 'console' && this.acknowledges) {
      const seq = frame.lines.at(-1)?.[0] ?? 0
      this.send({ type: 'console.ack', serverId: frame.serverId, epoch: frame.epoch, seq })
    }
  }
}
