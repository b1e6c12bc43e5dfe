import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { pause } from '../e2e/wait.ts'

/** What a slow cable carries, and how often: a greeting takes a good second. */
const SLOW_BYTES = 64
const SLOW_MS = 20

/**
 * A cable between an agent and its daemon. Cut, it carries nothing in either direction and says nothing about it: no end of
 * a connection, no refusal of a new one. Mended, what was on the way arrives. Slow, it carries a few bytes at a time, so that
 * frames which were sent together arrive one after the other.
 */
export class Cable {
  readonly url: string
  readonly #server: Server
  readonly #ends = new Set<Socket>()
  #isCut = false
  #isSlow = false
  #mended: (() => void)[] = []

  static async lay(to: string): Promise<Cable> {
    const { port } = new URL(to)
    // Half-open sockets are kept: an end of one side passes through when the other side's data has.
    const server = createServer({ pauseOnConnect: true, allowHalfOpen: true })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new Cable(server, Number(port))
  }

  private constructor(server: Server, port: number) {
    this.#server = server
    // The address of a listening TCP server is never a string or null.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('connection', (near) => void this.#join(near, port))
  }

  cut(): void {
    this.#isCut = true
  }

  slow(): void {
    this.#isSlow = true
  }

  mend(): void {
    this.#isCut = false
    this.#isSlow = false
    const waiting = this.#mended
    this.#mended = []
    for (const resume of waiting) resume()
  }

  async remove(): Promise<void> {
    for (const socket of this.#ends) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #join(near: Socket, port: number): Promise<void> {
    this.#keep(near)
    await this.#whole()
    if (near.destroyed) return
    const far = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    this.#keep(far)
    void this.#carry(near, far)
    void this.#carry(far, near)
  }

  #keep(socket: Socket): void {
    this.#ends.add(socket)
    socket.on('close', () => this.#ends.delete(socket))
    socket.on('error', () => socket.destroy())
  }

  async #carry(from: Socket, to: Socket): Promise<void> {
    try {
      for await (const chunk of from) {
        await this.#whole()
        for (let at = 0; at < chunk.length; ) {
          const piece = chunk.subarray(at, this.#isSlow ? at + SLOW_BYTES : undefined)
          at += piece.length
          if (!to.write(piece)) await Promise.race([once(to, 'drain'), once(to, 'close')])
          if (this.#isSlow) await pause(SLOW_MS)
        }
      }
      await this.#whole()
      to.end()
    } catch {
      // A reset: it reaches the other side as soon as the cable is whole.
      await this.#whole()
      to.destroy()
    }
  }

  async #whole(): Promise<void> {
    while (this.#isCut) await new Promise<void>((resolve) => this.#mended.push(resolve))
  }
}
