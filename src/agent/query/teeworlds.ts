import { randomBytes } from 'node:crypto'
import { type GamePlayers, MOST_PLAYER_NAMES } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { overUdp, type QueryTarget } from './exchange.ts'

const HELLO = Buffer.from('040000ffffffff05', 'hex')
/** A question for a token must be as long as its answer could be, so that nobody uses servers to flood others. */
const HELLO_BYTES = 520
const INFO = Buffer.from('ffffffff67696533', 'hex')
const ANSWER = Buffer.from('ffffffff696e6633', 'hex')

/** The server's info of Teeworlds 0.7, behind an exchange of tokens. */
export function askTeeworlds(target: QueryTarget): Promise<GamePlayers> {
  const own = randomBytes(4)
  return overUdp(target, async (udp) => {
    const hello = Buffer.concat([HELLO, own], HELLO_BYTES)
    const token = await udp.ask(hello, (answer) => {
      const isOurs = answer.length >= 12 && answer.subarray(3, 7).equals(own) && answer[7] === 5
      return isOurs ? Buffer.from(answer.subarray(8, 12)) : undefined
    })
    const question = Buffer.concat([Buffer.from([0x21]), token, own, INFO, Buffer.from([0])])
    return await udp.ask(question, (answer) => {
      const reader = new ByteReader(answer)
      if (reader.u8() !== 0x21 || !reader.take(4).equals(own)) return undefined
      reader.take(4)
      return reader.take(8).equals(ANSWER) ? readInfo(reader) : undefined
    })
  })
}

/** Counted are all who are connected, spectators as well. */
function readInfo(reader: ByteReader): GamePlayers {
  packedInt(reader)
  for (const _ of ['version', 'name', 'host', 'map', 'mode']) reader.text()
  for (const _ of ['flags', 'skill']) reader.u8()
  for (const _ of ['players', 'most players']) packedInt(reader)
  const online = packedInt(reader)
  const max = packedInt(reader)
  const names: string[] = []
  while (names.length < Math.min(online, MOST_PLAYER_NAMES) && reader.left > 0) {
    names.push(reader.text())
    reader.text()
    for (const _ of ['country', 'score', 'kind']) packedInt(reader)
  }
  return { online, max, names }
}

/** The game's integers: a sign and six bits, then seven bits a byte as long as the highest bit is set. */
function packedInt(reader: ByteReader): number {
  const first = reader.u8()
  let value = first & 0x3f
  for (let shift = 6, byte = first; byte >= 0x80 && shift < 34; shift += 7) {
    byte = reader.u8()
    value |= (byte & 0x7f) << shift
  }
  return (first & 0x40) === 0 ? value : ~value
}
