import { connect, type Socket } from 'node:net'
import { percentile } from './figure.ts'

/** A request; path and body may differ from one to the next. */
export interface Request {
  readonly method?: 'GET' | 'POST' | 'PATCH'
  /** Of all requests, or of the n-th. */
  readonly path: string | ((index: number) => string)
  readonly body?: string | ((index: number) => string)
}

/** A request that is sent again and again. */
export interface Target extends Request {
  readonly url: string
  readonly token?: string | undefined
  /** Every so many requests another one is sent. */
  readonly among?: { readonly every: number; readonly request: Request }
}

/** What a stretch of load came to. Requests that were still open at its end are not among them. */
export interface Load {
  /** Answers of 2xx. */
  readonly requests: number
  /** Other answers; none unless they are allowed. */
  readonly refused: number
  readonly perSecond: number
  readonly refusedPerSecond: number
  /** Of answers of 2xx, in milliseconds. */
  readonly p50: number
  readonly p99: number
  readonly seconds: number
}

/** How the load is made where the usual is not meant. */
export interface LoadOptions {
  /** Answers that are not 2xx are counted; without it they are an error. */
  readonly refusals?: 'allowed'
  /** How long each connection waits after an answer. */
  readonly restMs?: number
  /** The load goes on beyond its time until so many answers of 2xx have come, five times as long at most. */
  readonly leastAnswers?: number
  /** The address of this machine that it comes from. */
  readonly from?: string
}

/** Keeps `connections` kept-alive connections busy for `ms`, and cuts them off then. */
export function load(
  target: Target,
  connections: number,
  ms: number,
  { refusals, restMs = 0, leastAnswers = 0, from }: LoadOptions = {},
): Promise<Load> {
  const encode = encoder(target)
  const latencies: number[] = []
  let [sent, refused, opened] = [0, 0, 0]
  let began = 0
  return new Promise((resolve, reject) => {
    const end = (error?: Error): void => {
      clearTimeout(timer)
      for (const line of lines) line.close()
      if (error !== undefined) {
        reject(error)
        return
      }
      const seconds = (performance.now() - began) / 1000
      resolve({
        requests: latencies.length,
        refused,
        perSecond: latencies.length / seconds,
        refusedPerSecond: refused / seconds,
        p50: percentile(latencies, 50),
        p99: percentile(latencies, 99),
        seconds,
      })
    }
    const due = (): void => {
      const isEnough = latencies.length >= leastAnswers || performance.now() - began >= 5 * ms
      if (isEnough) end()
      else timer = setTimeout(due, ms / 20)
    }
    let timer = setTimeout(() => end(new Error(`${target.url}: connections were not taken within 30 s`)), 30_000)
    const next = (line: Line): void => line.send(encode(sent++))
    const events: LineEvents = {
      opened: () => {
        opened += 1
        if (opened < connections) return
        clearTimeout(timer)
        timer = setTimeout(due, ms)
        began = performance.now()
        for (const line of lines) next(line)
      },
      answered: (line, answer) => {
        if (answer.status >= 200 && answer.status < 300) latencies.push(answer.ms)
        else if (refusals === 'allowed') refused += 1
        else {
          end(new Error(`${target.url}: answered ${answer.head}`))
          return
        }
        if (restMs === 0) next(line)
        else setTimeout(() => line.isOpen && next(line), restMs)
      },
      failed: end,
    }
    const lines = Array.from({ length: connections }, () => new Line(target.url, from, events))
  })
}

/** The answer of one request: its whole body. */
export async function bodyOf(target: Target): Promise<string> {
  const { method = 'GET', path, body, token } = target
  const response = await fetch(target.url + (typeof path === 'string' ? path : path(0)), {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : body(0) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${target.url}: ${response.status} ${text.slice(0, 800)}`)
  return text
}

/** The size of one answer's body in bytes. */
export async function bodyBytes(target: Target): Promise<number> {
  return Buffer.byteLength(await bodyOf(target))
}

/** Requests as bytes; what is the same each time is made once. */
function encoder(target: Target): (index: number) => Buffer {
  const [usual, other] = [encoderOf(target, target.token), target.among]
  if (other === undefined) return usual
  const instead = encoderOf(other.request, target.token)
  return (index) => (index % other.every === other.every - 1 ? instead(index) : usual(index))
}

function encoderOf({ method = 'GET', path, body }: Request, token: string | undefined): (index: number) => Buffer {
  const encode = (index: number): Buffer => {
    const text = typeof body === 'function' ? body(index) : body
    const lines = [
      `${method} ${typeof path === 'string' ? path : path(index)} HTTP/1.1`,
      'host: localhost',
      ...(token === undefined ? [] : [`authorization: Bearer ${token}`]),
      ...(text === undefined ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(text)}`]),
    ]
    return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${text ?? ''}`)
  }
  if (typeof path === 'function' || typeof body === 'function') return encode
  const constant = encode(0)
  return () => constant
}

interface LineEvents {
  opened(): void
  answered(line: Line, answer: { readonly status: number; readonly ms: number; readonly head: string }): void
  failed(error: Error): void
}

/** All connections read into the same memory: what has come is looked at before anything else is read. */
const ARRIVED = Buffer.alloc(256 * 1024)
const HEAD_END = Buffer.from('\r\n\r\n')
const LENGTH = /\r\ncontent-length: (\d+)/i

/** One connection; it reads lengths instead of bodies and keeps no bytes, so that the client costs little. */
class Line {
  readonly #socket: Socket
  readonly #events: LineEvents
  #head = ''
  #status = 0
  #left = -1
  #sentAt = 0
  #isOpen = true

  constructor(url: string, from: string | undefined, events: LineEvents) {
    this.#events = events
    const { hostname, port } = new URL(url)
    const take = (bytes: number): boolean => {
      this.#take(bytes)
      return true
    }
    this.#socket = connect({
      port: Number(port),
      host: hostname,
      noDelay: true,
      ...(from === undefined ? {} : { localAddress: from }),
      onread: { buffer: ARRIVED, callback: take },
    })
    this.#socket.on('connect', () => events.opened())
    this.#socket.on('error', (error) => this.#isOpen && events.failed(error))
    this.#socket.on('close', () => this.#isOpen && events.failed(new Error(`${url}: the connection was closed`)))
  }

  get isOpen(): boolean {
    return this.#isOpen
  }

  send(request: Buffer): void {
    this.#sentAt = performance.now()
    this.#socket.write(request)
  }

  close(): void {
    this.#isOpen = false
    this.#socket.destroy()
  }

  #take(bytes: number): void {
    if (this.#left >= 0) this.#left -= bytes
    else {
      const end = this.#head === '' ? ARRIVED.subarray(0, bytes).indexOf(HEAD_END) : -1
      // A head in one piece, as nearly all are, is looked at without its body.
      const text = this.#head + ARRIVED.toString('latin1', 0, end < 0 ? bytes : end + 4)
      const length = text.indexOf('\r\n\r\n') + 4
      this.#head = text
      if (length < 4) return
      const size = LENGTH.exec(text)?.[1]
      if (size === undefined) {
        this.#events.failed(new Error(`an answer without a length: ${text}`))
        return
      }
      this.#status = Number(text.slice(9, 12))
      const body = end < 0 ? text.length - length : bytes - length
      this.#left = Number(size) - body
    }
    if (this.#left > 0) return
    const answer = { status: this.#status, ms: performance.now() - this.#sentAt, head: this.#head }
    this.#left = -1
    this.#head = ''
    if (this.#isOpen) this.#events.answered(this, answer)
  }
}
