import { once } from 'node:events'
import { WebSocket } from 'ws'
import { GATEWAY_PATH } from '../../src/shared/protocol/frames.ts'
import { pause } from '../e2e/wait.ts'
import type { FuzzCase, FuzzPhase } from './frame-fuzz.ts'

/** How long a snapshot may take; what was none gets no answer at all. */
const TAKE_MS = 30

/** A node as a stranger to the protocol would use its key: sends what it is given and comes again when it is thrown out. */
export class FuzzClient {
  /** How often each close code came. */
  readonly closes = new Map<number, number>()
  /** How many cases did not end the connection. */
  taken = 0
  readonly #target: URL
  readonly #headers: Readonly<Record<string, string>>
  readonly #answer: () => unknown
  #socket: WebSocket | undefined
  #phase: FuzzPhase = 'fresh'
  #journals = 0
  /** Resolves when the snapshot of this connection is taken. */
  #taken: Promise<void> = Promise.resolve()

  constructor(url: string, node: { readonly id: string; readonly key: string }, answer: () => unknown) {
    this.#target = new URL(GATEWAY_PATH, url)
    this.#target.protocol = 'ws:'
    this.#headers = { 'x-node-id': node.id, 'x-node-api-key': node.key }
    this.#answer = answer
  }

  /** Sends the case and resolves when the daemon has read it: it answers a ping behind it, or ends the connection. */
  async send({ phase, data }: FuzzCase): Promise<void> {
    const socket = await this.#open(phase)
    socket.send(data)
    if (await settled(socket)) this.taken += 1
    else this.#socket = undefined
    if (phase !== 'welcomed') return
    // What was sent may have been the snapshot that was due: it is taken or not, and the next case begins anew.
    await Promise.race([once(socket, 'close'), this.#taken, pause(TAKE_MS)])
    await this.leave()
  }

  async leave(): Promise<void> {
    const socket = this.#socket
    this.#socket = undefined
    if (socket === undefined || socket.readyState === WebSocket.CLOSED) return
    const closed = once(socket, 'close')
    socket.close(1001)
    await closed
  }

  async #open(phase: FuzzPhase): Promise<WebSocket> {
    const known = this.#socket
    if (known?.readyState === WebSocket.OPEN && this.#phase === phase) return known
    if (known !== undefined) await this.leave()
    const socket = new WebSocket(this.#target, 'panel-agent.v1', { headers: this.#headers })
    socket.on('error', () => {}) // a close follows, which is what is looked at
    socket.on('close', (code) => this.closes.set(code, (this.closes.get(code) ?? 0) + 1))
    await once(socket, 'open')
    this.#socket = socket
    this.#phase = phase
    if (phase !== 'fresh') await this.#shakeHands(socket, phase)
    return socket
  }

  async #shakeHands(socket: WebSocket, phase: 'welcomed' | 'ready'): Promise<void> {
    let isTaken = (): void => {}
    this.#taken = new Promise((resolve) => {
      isTaken = resolve
    })
    const reached = new Promise<void>((resolve) => {
      socket.on('close', () => resolve())
      socket.on('message', (data) => {
        const frame: { type: string; id?: string } = JSON.parse(data.toString())
        if (frame.type === 'snapshot.ok') isTaken()
        if (frame.type === 'snapshot.ok' || (frame.type === 'welcome' && phase === 'welcomed')) resolve()
        else if (frame.type === 'welcome') sendJson(socket, NOTHING)
        if (frame.type === 'request') {
          sendJson(socket, { type: 'reply', id: frame.id, error: null, result: this.#answer() })
        }
      })
    })
    // Each handshake is that of a machine with a new journal, so that no event number of an earlier case counts.
    sendJson(socket, { ...HELLO, journalId: `fuzz-${process.pid}-${++this.#journals}` })
    await reached
  }
}

/** Whether the connection still stands after what was sent was read. */
function settled(socket: WebSocket): Promise<boolean> {
  return new Promise((resolve) => {
    // An answer of the handshake may have been the end of the connection: nothing comes any more then.
    if (socket.readyState === WebSocket.CLOSED) return resolve(false)
    const closed = (): void => resolve(false)
    socket.once('close', closed)
    socket.once('pong', () => {
      socket.off('close', closed)
      resolve(socket.readyState === WebSocket.OPEN)
    })
    socket.ping()
  })
}

function sendJson(socket: WebSocket, frame: object): void {
  socket.send(JSON.stringify(frame))
}

const NOTHING = { type: 'snapshot', servers: [], commands: [], orphans: [] }

const HELLO = {
  type: 'hello',
  protocol: 1,
  lastEvent: 0,
  agentVersion: '0',
  bootId: 'boot',
  hostname: 'fuzz',
  os: 'Linux',
  arch: 'x64',
  cpus: 1,
  memoryMb: 1,
  diskMb: 1,
  addresses: [],
  runtimes: [],
}
