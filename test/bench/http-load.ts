import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { percentile } from './figure.ts'

/** A request that is sent again and again. */
export interface Target {
  readonly url: string
  readonly method?: 'GET' | 'POST'
  /** Of all requests, or of the n-th. */
  readonly path: string | ((index: number) => string)
  readonly token?: string | undefined
  readonly body?: string
}

/** What a stretch of load came to. */
export interface Load {
  readonly requests: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

/** Keeps `connections` kept-alive connections busy for `ms`. Fails on any answer that is not 2xx. */
export async function load(target: Target, connections: number, ms: number): Promise<Load> {
  const latencies: number[] = []
  let sentSoFar = 0
  const began = performance.now()
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const line = await Line.open(target)
      while (performance.now() - began < ms) {
        const sent = performance.now()
        await line.call(sentSoFar++)
        latencies.push(performance.now() - sent)
      }
      line.close()
    }),
  )
  const seconds = (performance.now() - began) / 1000
  return {
    requests: latencies.length,
    perSecond: latencies.length / seconds,
    p50: percentile(latencies, 50),
    p99: percentile(latencies, 99),
  }
}

/** The size of one answer's body in bytes. */
export async function bodyBytes(target: Target): Promise<number> {
  const line = await Line.open(target)
  const bytes = await line.call(0)
  line.close()
  return bytes
}

/** One connection; it reads lengths instead of bodies, so that the client costs little. */
class Line {
  readonly #socket: Socket
  readonly #target: Target
  #head: Buffer = Buffer.alloc(0)
  #left = -1
  #size = 0
  #settle: { resolve(bytes: number): void; reject(error: Error): void } | undefined

  static async open(target: Target): Promise<Line> {
    const { hostname, port } = new URL(target.url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    return new Line(socket, target)
  }

  private constructor(socket: Socket, target: Target) {
    this.#socket = socket
    this.#target = target
    socket.setNoDelay()
    socket.on('data', (chunk) => this.#take(chunk))
    socket.on('error', (error) => this.#settle?.reject(error))
    socket.on('close', () => this.#settle?.reject(new Error('the connection was closed')))
  }

  /** Sends the `index`th request and resolves with the size of the answer's body. */
  call(index: number): Promise<number> {
    const { method = 'GET', path, token, body } = this.#target
    const lines = [
      `${method} ${typeof path === 'string' ? path : path(index)} HTTP/1.1`,
      'host: localhost',
      ...(token === undefined ? [] : [`authorization: Bearer ${token}`]),
      ...(body === undefined ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]),
    ]
    return new Promise((resolve, reject) => {
      this.#settle = { resolve, reject }
      this.#socket.write(`${lines.join('\r\n')}\r\n\r\n${body ?? ''}`)
    })
  }

  close(): void {
    this.#settle = undefined
    this.#socket.destroy()
  }

  #take(chunk: Buffer): void {
    if (this.#left < 0) {
      this.#head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
      const end = this.#head.indexOf('\r\n\r\n')
      if (end < 0) return
      const text = this.#head.toString('latin1', 0, end)
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
      if (!/^HTTP\/1\.1 2/.test(text) || length === undefined) {
        this.#settle?.reject(new Error(`${this.#target.url}: ${this.#head.toString('utf8').slice(0, 800)}`))
        return
      }
      this.#size = Number(length)
      this.#left = this.#size - (this.#head.length - end - 4)
      this.#head = Buffer.alloc(0)
    } else this.#left -= chunk.length
    if (this.#left > 0) return
    this.#left = -1
    this.#settle?.resolve(this.#size)
  }
}
