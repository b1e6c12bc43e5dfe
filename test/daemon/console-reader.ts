import { type ClientRequest, type IncomingMessage, request } from 'node:http'

/** One frame of an event stream as it came over the wire. */
export interface WireFrame {
  readonly id: string | undefined
  readonly event: string
  readonly data: Record<string, unknown>
}

/** Reads an event stream over a socket of its own, as curl does; can stop taking bytes. */
export class ConsoleReader {
  readonly frames: WireFrame[] = []
  /** The comments of the stream, without the colon. */
  readonly comments: string[] = []
  ended = false
  status = 0
  readonly #request: ClientRequest
  #response: IncomingMessage | undefined
  #text = ''

  constructor(url: string, token: string, headers: Record<string, string> = {}) {
    this.#request = request(url, { agent: false, headers: { authorization: `Bearer ${token}`, ...headers } })
    this.#request.on('error', () => {
      this.ended = true // the test ended the stream or looks at `ended`
    })
    this.#request.on('response', (response) => {
      this.#response = response
      this.status = response.statusCode ?? 0
      response.setEncoding('utf8').on('data', (part: string) => this.#take(part))
      response.on('close', () => {
        this.ended = true
      })
      response.on('error', () => {
        this.ended = true // as above
      })
    })
    this.#request.end()
  }

  /** Stops and goes on with taking bytes. */
  pause(): void {
    this.#response?.pause()
  }

  resume(): void {
    this.#response?.resume()
  }

  close(): void {
    this.#request.destroy()
  }

  /** The numbers of the console lines, as they came. */
  get seqs(): number[] {
    return this.frames.flatMap(({ event, data }) => (event === 'console' ? [Number(data['seq'])] : []))
  }

  of(event: string): WireFrame[] {
    return this.frames.filter((frame) => frame.event === event)
  }

  async until<T>(what: string, look: (reader: ConsoleReader) => T | undefined | false, ms = 20_000): Promise<T> {
    const deadline = performance.now() + ms
    for (;;) {
      const found = look(this)
      if (found !== undefined && found !== false) return found
      if (performance.now() > deadline) {
        throw new Error(
          `Waited in vain for ${what}; ${this.frames.length} frames, last: ${JSON.stringify(this.frames.slice(-3))}`,
        )
      }
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }

  #take(part: string): void {
    const pieces = (this.#text + part).split('\n\n')
    this.#text = pieces.pop() ?? ''
    for (const piece of pieces) {
      if (piece.startsWith(': ')) this.comments.push(piece.slice(2))
      const fields = new Map(
        piece.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
      )
      const event = fields.get('event')
      const data = fields.get('data')
      if (event !== undefined && data !== undefined)
        this.frames.push({ id: fields.get('id'), event, data: JSON.parse(data) })
    }
  }
}

/** The numbers from `from` to `to`. */
export function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i)
}
