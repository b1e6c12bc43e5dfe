import type { ServerResponse } from 'node:http'
import type { StreamError } from '../../shared/kernel/events.ts'
import { type Clock, isoTime } from '../../shared/kernel/time.ts'

/** Every stream says that it lives this often. */
export const HEARTBEAT_MS = 25_000
const RETRY_MS = 1_000
/** How long a stream that was ended may take to get out: nobody counts it any more, and who does not read would hold what waits for them for ever. */
const LAST_WORDS_MS = 30_000

/** The bytes of one event. Serialise once, send to all. */
export function sseFrame(event: string, data: unknown, id?: string): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}

/** Whole frames as bytes that many streams are sent, and the same as the chunk of HTTP that each of them is sent. */
export interface SharedFrames {
  readonly bytes: Buffer
  readonly chunk: Buffer
}

/** Makes both in one piece of memory. */
export function sharedFrames(text: string): SharedFrames {
  const length = Buffer.byteLength(text)
  const head = `${length.toString(16)}\r\n`
  const chunk = Buffer.from(`${head}${text}\r\n`)
  return { bytes: chunk.subarray(head.length, head.length + length), chunk }
}

/** One open event stream on its socket. */
export class SseConnection {
  readonly #response: ServerResponse
  readonly #clock: Clock
  readonly #maxUnsent: number | null
  readonly #closing = new AbortController()
  /** The stream is over: the client went away, or it was ended. */
  readonly closed: AbortSignal = this.#closing.signal
  /** The same, for what is asked thousands of times a second. */
  #isOver = false

  constructor(response: ServerResponse, clock: Clock, maxUnsentBytes: number | null) {
    this.#response = response
    this.#clock = clock
    this.#maxUnsent = maxUnsentBytes
    response.on('close', () => this.#close())
    response.on('error', () => this.#close())
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-store, must-revalidate',
      connection: 'keep-alive',
      'x-accel-buffering': 'no',
    })
    response.write(`: connected\nretry: ${RETRY_MS}\n\n`)
    void this.#beat()
  }

  /** Bytes that wait in this process for the client to take them. */
  get unsentBytes(): number {
    return this.#response.writableLength
  }

  /** Sends an event; `timestamp` and `type` are added. */
  send(type: string, data: Readonly<Record<string, unknown>>, id?: string): void {
    this.write(sseFrame(type, { type, ...data, timestamp: data['timestamp'] ?? isoTime(this.#clock.nowMs()) }, id))
  }

  /** Sends a remark, which readers of events pass over. */
  comment(text: string): void {
    this.write(`: ${text}\n\n`)
  }

  /** Sends bytes that are whole frames already. */
  write(frames: string | Uint8Array): void {
    if (this.closed.aborted) return
    this.#response.write(frames)
    if (this.#maxUnsent !== null && this.unsentBytes > this.#maxUnsent) {
      this.fail('slow_consumer', { message: 'The stream was not read fast enough; resume with Last-Event-ID' })
    }
  }

  /**
   * Sends frames that other streams are sent as well, in one write of the bytes that all share: past the response, which would
   * make the chunk anew for each of them, in four pieces.
   */
  writeShared({ bytes, chunk }: SharedFrames): void {
    const { socket, chunkedEncoding } = this.#response
    // HTTP/1.0 knows no chunks, and a response that waits for its turn has no socket yet.
    if (socket === null || !chunkedEncoding || this.#maxUnsent !== null) this.write(bytes)
    else if (!this.#isOver) socket.write(chunk)
  }

  /** Resolves when the client has taken what waited, or the stream is over. */
  async drained(): Promise<void> {
    const { socket } = this.#response
    if (this.unsentBytes === 0 || this.closed.aborted || socket === null) return
    await new Promise<void>((resolve) => {
      const done = (): void => {
        socket.off('drain', done)
        this.closed.removeEventListener('abort', done)
        resolve()
      }
      socket.once('drain', done)
      this.closed.addEventListener('abort', done)
      if (!socket.writableNeedDrain) done()
    })
  }

  /** Says that something is amiss; the stream goes on. */
  report(error: StreamError['error'], extra: Readonly<Record<string, unknown>> = {}): void {
    if (this.closed.aborted) return
    this.#response.write(sseFrame('error', { type: 'error', error, ...extra, timestamp: isoTime(this.#clock.nowMs()) }))
  }

  /** Says why, and ends the stream. */
  fail(error: StreamError['error'], extra: Readonly<Record<string, unknown>> = {}): void {
    if (this.closed.aborted) return
    this.report(error, extra)
    this.end()
  }

  end(): void {
    if (!this.#response.writableEnded) {
      this.#response.end()
      void this.#cutOff()
    }
    this.#close()
  }

  async #cutOff(): Promise<void> {
    if (this.#response.destroyed) return
    const gone = new AbortController()
    this.#response.once('close', () => gone.abort())
    await this.#clock.sleep(LAST_WORDS_MS, gone.signal)
    if (!this.#response.writableFinished) this.#response.destroy()
  }

  #close(): void {
    this.#isOver = true
    this.#closing.abort()
  }

  async #beat(): Promise<void> {
    while (!this.closed.aborted) {
      await this.#clock.sleep(HEARTBEAT_MS, this.closed)
      if (!this.closed.aborted) this.#response.write(': heartbeat\n\n')
    }
  }
}
