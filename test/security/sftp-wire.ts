import { once } from 'node:events'
import type { Client, ClientChannel } from 'ssh2'

/** The answer to one request: its kind, and what stands behind the id. */
export interface WireAnswer {
  readonly type: number
  readonly body: Buffer
  /** Of a status: 0 is success. */
  readonly status: number | undefined
}

export const WIRE = { status: 101, handle: 102, data: 103, name: 104, attrs: 105 } as const

/** Speaks SFTP byte by byte, as no honest client does. */
export class SftpWire {
  readonly channel: ClientChannel
  readonly closed: Promise<unknown>
  readonly #waiting = new Map<number, (answer: WireAnswer) => void>()
  #bytes = Buffer.alloc(0)
  #lastId = 0

  private constructor(channel: ClientChannel) {
    this.channel = channel
    this.closed = once(channel, 'close')
  }

  /** Opens a channel; `listens: false` leaves what the server answers in the network. */
  static async open(client: Client, { listens = true } = {}): Promise<SftpWire> {
    const channel = await new Promise<ClientChannel>((resolve, reject) =>
      client.subsys('sftp', (error, made) => (error === undefined ? resolve(made) : reject(error))),
    )
    const wire = new SftpWire(channel)
    channel.on('error', () => {}) // the server may end it at any time
    if (!listens) return wire
    channel.on('data', (piece: Buffer) => wire.#take(piece))
    const greeted = new Promise<void>((resolve) => wire.#waiting.set(-1, () => resolve()))
    channel.write(packet(1, uint32(3)))
    await greeted
    return wire
  }

  /** Sends a request and resolves with its answer. */
  ask(type: number, ...parts: readonly Buffer[]): Promise<WireAnswer> {
    const id = ++this.#lastId
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve)
      this.channel.write(packet(type, uint32(id), ...parts))
      void this.closed.then(() => resolve({ type: 0, body: Buffer.alloc(0), status: -1 }))
    })
  }

  #take(piece: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, piece])
    while (this.#bytes.length >= 4 && this.#bytes.length >= 4 + this.#bytes.readUInt32BE(0)) {
      const whole = this.#bytes.subarray(4, 4 + this.#bytes.readUInt32BE(0))
      this.#bytes = this.#bytes.subarray(4 + whole.length)
      const type = whole.readUInt8(0)
      const id = type === 2 ? -1 : whole.readUInt32BE(1)
      const body = Buffer.from(whole.subarray(5))
      const settle = this.#waiting.get(id)
      this.#waiting.delete(id)
      settle?.({ type, body, status: type === WIRE.status ? body.readUInt32BE(0) : undefined })
    }
  }
}

export function packet(type: number, ...parts: readonly Buffer[]): Buffer {
  const body = Buffer.concat([Buffer.of(type), ...parts])
  return Buffer.concat([uint32(body.length), body])
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

export function uint64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64BE(value)
  return bytes
}

export function text(value: string | Buffer): Buffer {
  const bytes = Buffer.from(value as string)
  return Buffer.concat([uint32(bytes.length), bytes])
}

/** The string at the beginning of an answer: a handle, or bytes of a file. */
export function firstText(body: Buffer): Buffer {
  return body.subarray(4, 4 + body.readUInt32BE(0))
}
