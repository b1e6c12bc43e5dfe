/** Types of packets; what a request and what an answer has for 2 differs. */
export const PACKET = { login: 3, command: 2, loginAnswer: 2, answer: 0 } as const

/** A packet is a length, an id, a type and a text with two NULs behind it; all numbers have 32 bits, the lowest first. */
export interface Packet {
  readonly id: number
  readonly type: number
  readonly body: Buffer
}

const HEAD_BYTES = 4
const LEAST_BYTES = 10
/** Source ends packets at 4 KiB; Minecraft counts 4096 characters, of up to three bytes each. */
const MOST_BYTES = 3 * 4096 + LEAST_BYTES

/** What came is no RCON. */
export class NoRcon extends Error {}

export function packetOf(id: number, type: number, text: string): Buffer {
  const body = Buffer.from(text)
  const packet = Buffer.alloc(HEAD_BYTES + LEAST_BYTES + body.length)
  packet.writeInt32LE(LEAST_BYTES + body.length, 0)
  packet.writeInt32LE(id, 4)
  packet.writeInt32LE(type, 8)
  body.copy(packet, 12)
  return packet
}

/** Puts packets together from the pieces in which they come, of which it holds one packet at most. */
export class PacketReader {
  #held = Buffer.alloc(0)

  /** Whether a packet has begun to come. */
  get isWithin(): boolean {
    return this.#held.length > 0
  }

  /** The packets that are complete now. Throws {@link NoRcon} for a length that no packet has. */
  push(chunk: Buffer): Packet[] {
    const packets: Packet[] = []
    let bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    while (bytes.length >= HEAD_BYTES) {
      const length = bytes.readInt32LE(0)
      if (length < LEAST_BYTES || length > MOST_BYTES) throw new NoRcon(`a packet of ${length} bytes`)
      if (bytes.length < HEAD_BYTES + length) break
      const packet = bytes.subarray(HEAD_BYTES, HEAD_BYTES + length)
      packets.push({ id: packet.readInt32LE(0), type: packet.readInt32LE(4), body: Buffer.from(textOf(packet)) })
      bytes = bytes.subarray(HEAD_BYTES + length)
    }
    this.#held = Buffer.from(bytes)
    return packets
  }
}

function textOf(packet: Buffer): Buffer {
  const end = packet.indexOf(0, 8)
  return packet.subarray(8, end < 0 ? packet.length : end)
}
