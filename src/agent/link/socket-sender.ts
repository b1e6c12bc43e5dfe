import type { WebSocket } from 'ws'
import { type AgentFrame, GATEWAY_LIMITS } from '../../shared/protocol/frames.ts'

/**
 * The writing side of a connection. Urgent frames (answers, events) go out in order at once; console frames take turns and
 * wait while more than 1 MiB lies in the socket; usage is left out then, because newer reports follow.
 */
export class SocketSender {
  readonly #socket: WebSocket
  #turn: Promise<unknown> = Promise.resolve()
  #drained: (() => void)[] = []

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.once('close', () => this.#wake())
  }

  get open(): boolean {
    return this.#socket.readyState === this.#socket.OPEN
  }

  /** Resolves when the frame has been handed to the network; rejects when the connection is gone. */
  send(frame: AgentFrame): Promise<void> {
    return new Promise((resolve, reject) => {
      if (!this.open) return reject(new Error('The connection to the daemon is closed'))
      this.#socket.send(JSON.stringify(frame), (error) => {
        this.#wake()
        if (error) reject(error)
        else resolve()
      })
    })
  }

  /** Sends when there is room; several callers take turns, so that one loud server does not starve the others. */
  sendInTurn(frame: AgentFrame): Promise<void> {
    const mine = this.#turn.then(async () => {
      await this.#room()
      // Not awaited to the end: the next in line waits for room, not for the network.
      const sent = this.send(frame)
      sent.catch(() => {}) // the caller below gets it
      return { sent }
    })
    this.#turn = mine.catch(() => {}) // the caller gets the failure
    return mine.then(({ sent }) => sent)
  }

  /** Sends unless the socket is behind. */
  sendIfIdle(frame: AgentFrame): void {
    if (!this.open || this.#socket.bufferedAmount > GATEWAY_LIMITS.socketPauseBytes / 4) return
    this.send(frame).catch(() => {}) // the connection ended: the next one gets newer usage
  }

  /** Resolves when less than 1 MiB lies in the socket, or it is closed. */
  async #room(): Promise<void> {
    while (this.open && this.#socket.bufferedAmount > GATEWAY_LIMITS.socketPauseBytes) {
      await new Promise<void>((resolve) => this.#drained.push(resolve))
    }
  }

  #wake(): void {
    const waiting = this.#drained
    this.#drained = []
    for (const resolve of waiting) resolve()
  }
}
