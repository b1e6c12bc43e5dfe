import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { isDeeperThan, MOST_BODY_DEPTH } from '../../shared/kernel/json-depth.ts'
import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { askTcp, overUdp, type QueryTarget } from './exchange.ts'

const Status = z.object({
  players: z.object({
    online: z.int(),
    max: z.int(),
    sample: z
      .array(z.object({ name: z.string() }))
      .nullish()
      .catch(null),
  }),
})

/** The status of Minecraft Java 1.7 and later: a handshake for it and the question itself, in one go. */
export function askMinecraft(target: QueryTarget): Promise<GamePlayers> {
  const host = Buffer.from(target.host)
  const port = Buffer.alloc(2)
  port.writeUInt16BE(target.port)
  // Version -1 is that of a program that only asks.
  const handshake = Buffer.concat([Buffer.from([0]), varint(-1), varint(host.length), host, port, varint(1)])
  const question = Buffer.concat([varint(handshake.length), handshake, Buffer.from([1, 0])])
  return askTcp(target, question, (bytes) => {
    const packet = firstPacket(bytes)
    if (packet === undefined) return undefined
    if (readVarint(packet) !== 0) throw new Error('not a status packet')
    const json = packet.take(readVarint(packet) ?? -1).toString('utf8')
    if (isDeeperThan(json, MOST_BODY_DEPTH)) throw new Error('the status is nested too deep')
    const { online, max, sample } = Status.parse(JSON.parse(json)).players
    return { online, max, names: (sample ?? []).map(({ name }) => name) }
  })
}

const MAGIC = Buffer.from('00ffff00fefefefefdfdfdfd12345678', 'hex')

/** The ping of Minecraft Bedrock: `MCPE;motd;protocol;version;online;max;…`. */
export function askBedrock(target: QueryTarget): Promise<GamePlayers> {
  const time = randomBytes(8)
  const question = Buffer.concat([Buffer.from([1]), time, MAGIC, randomBytes(8)])
  return overUdp(target, (udp) =>
    udp.ask(question, (answer) => {
      const reader = new ByteReader(answer)
      if (reader.u8() !== 0x1c || !reader.take(8).equals(time)) return undefined
      reader.take(8)
      if (!reader.take(16).equals(MAGIC)) return undefined
      const [, , , , online = '', max = ''] = reader.take(reader.u16be()).toString('utf8').split(';')
      return { online: Number(online), max: Number(max), names: [] }
    }),
  )
}

/** What the first packet holds; `undefined` before all of it is there. */
function firstPacket(bytes: Buffer): ByteReader | undefined {
  const reader = new ByteReader(bytes)
  const length = readVarint(reader)
  return length === undefined || reader.left < length ? undefined : new ByteReader(reader.take(length))
}

/** A number in groups of seven bits, the lowest first; `undefined` where it is not complete. */
function readVarint(reader: ByteReader): number | undefined {
  let value = 0
  for (let shift = 0; shift < 35; shift += 7) {
    if (reader.left === 0) return undefined
    const byte = reader.u8()
    value |= (byte & 0x7f) << shift
    if (byte < 0x80) {
      if (value < 0) throw new Error('a negative length')
      return value
    }
  }
  throw new Error('a number of more than 32 bits')
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  let left = value >>> 0
  while (left >= 0x80) {
    bytes.push((left & 0x7f) | 0x80)
    left >>>= 7
  }
  return Buffer.from([...bytes, left])
}
