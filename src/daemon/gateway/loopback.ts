import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { Duplex } from 'node:stream'

/** Takes over an upgrade request; the gateway's own. */
export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer) => void

/**
 * A way to the gateway without a network, for the agent in the daemon's own process: `connect` answers one
 * end of a pair of streams whose other end speaks HTTP with the same handlers of upgrades and requests, same headers and key
 * check.
 */
export function createLoopback(upgrade: UpgradeHandler, answer: RequestListener): { connect(): Duplex; close(): void } {
  // Never listens: it only reads requests from the streams that are handed to it.
  // Transfers may take hours; one that moves nothing is given up by those at its ends.
  const server = createServer({ requestTimeout: 0 }, answer)
  server.on('upgrade', upgrade)
  const ends = new Set<Duplex>()
  return {
    connect: () => {
      const [near, far] = streamPair()
      ends.add(far)
      far.once('close', () => ends.delete(far))
      server.emit('connection', far)
      return near
    },
    close: () => {
      for (const end of ends) end.destroy()
      server.close()
    },
  }
}

/** Two ends: what is written to one is read from the other, with back-pressure; the end and the breaking of one reach the other. */
export function streamPair(): [Duplex, Duplex] {
  const near: End = new End(() => far)
  const far: End = new End(() => near)
  return [near, far]
}

/** One end of a pair. It has the few methods of a network socket that `http` and `ws` call. */
class End extends Duplex {
  readonly #other: () => End
  #taken: (() => void) | undefined
  readonly remoteAddress = 'loopback'

  constructor(other: () => End) {
    super({ allowHalfOpen: true })
    this.#other = other
  }

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }

  override _read(): void {
    const taken = this.#taken
    this.#taken = undefined
    taken?.()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#other().#give(chunk, done)
  }

  override _final(done: () => void): void {
    this.#other().#give(null, () => {})
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    const taken = this.#taken
    this.#taken = undefined
    taken?.()
    const other = this.#other()
    // Later, as a network reports it: what is under way is read first.
    setImmediate(() => other.destroy())
    done(error)
  }

  #give(chunk: Buffer | null, taken: () => void): void {
    if (this.destroyed || this.readableEnded) taken()
    else if (this.push(chunk)) taken()
    else this.#taken = taken
  }
}
