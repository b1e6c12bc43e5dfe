import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { GATEWAY_PATH, NODE_ID_HEADER, NODE_KEY_HEADER } from '../../src/shared/protocol/frames.ts'

/** How often each frame of a ready connection is delivered. */
const COPIES = 3
/** Command frames that come within this time change places. */
const MIX_MS = 60

const UPWARD = new Set(['event', 'command.accepted', 'reply', 'console', 'stats', 'health'])

/**
 * Stands between an agent and its daemon and delivers frames three times; commands also in another order than they were
 * sent in: the newest first, and the copies mixed.
 */
export class FrameRelay {
  readonly url: string
  /** Commands as they were delivered. */
  readonly delivered: string[] = []
  readonly #target: URL
  readonly #http: Server
  readonly #sockets = new WebSocketServer({ noServer: true })

  static async listen(to: string): Promise<FrameRelay> {
    const http = createServer()
    http.listen(0, '127.0.0.1')
    await once(http, 'listening')
    return new FrameRelay(http, to)
  }

  private constructor(http: Server, to: string) {
    this.#http = http
    this.#target = new URL(GATEWAY_PATH, to)
    this.#target.protocol = 'ws:'
    // The address of a listening TCP server is never a string or null.
    this.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    http.on('upgrade', (request, socket, head) => this.#join(request, socket, head))
  }

  async close(): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate()
    this.#http.close()
    this.#http.closeAllConnections()
    await once(this.#http, 'close')
  }

  #join(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const headers = {
      [NODE_ID_HEADER]: String(request.headers[NODE_ID_HEADER]),
      [NODE_KEY_HEADER]: String(request.headers[NODE_KEY_HEADER]),
    }
    const far = new WebSocket(this.#target, 'panel-agent.v1', { headers })
    far.once('unexpected-response', () => socket.destroy())
    far.once('error', () => socket.destroy())
    far.once('open', () => this.#sockets.handleUpgrade(request, socket, head, (near) => this.#relay(near, far)))
  }

  #relay(near: WebSocket, far: WebSocket): void {
    const mixer = new Mixer((text) => {
      this.delivered.push(text)
      near.send(text)
    })
    near.on('message', (data) => {
      const text = data.toString()
      for (let i = 0; i < (UPWARD.has(typeOf(text)) ? COPIES : 1); i++) far.send(text)
    })
    far.on('message', (data) => {
      const text = data.toString()
      if (typeOf(text) === 'command') mixer.add(text)
      else near.send(text)
    })
    near.on('close', () => far.close())
    far.on('close', (code) => near.close(code === 1006 || code === 1005 ? 1011 : code))
    near.on('error', () => far.terminate())
    far.on('error', () => near.terminate())
  }
}

/** Collects commands for a moment, and gives them on newest first, each as often as it is copied. */
class Mixer {
  readonly #give: (text: string) => void
  #held: string[] = []

  constructor(give: (text: string) => void) {
    this.#give = give
  }

  add(text: string): void {
    if (this.#held.length === 0) setTimeout(() => this.#flush(), MIX_MS)
    this.#held.push(text)
  }

  #flush(): void {
    const newestFirst = this.#held.toReversed()
    this.#held = []
    for (let copy = 0; copy < COPIES; copy++) {
      for (const text of copy % 2 === 0 ? newestFirst : newestFirst.toReversed()) this.#give(text)
    }
  }
}

function typeOf(text: string): string {
  const frame: { type?: unknown } = JSON.parse(text)
  return String(frame.type)
}
