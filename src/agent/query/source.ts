import { type GamePlayers, MOST_PLAYER_NAMES } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { overUdp, type QueryTarget, type UdpTalk } from './exchange.ts'

const INFO = Buffer.from('ffffffff54536f7572636520456e67696e6520517565727900', 'hex')
const PLAYERS = Buffer.from('ffffffff55', 'hex')
const ANY = Buffer.from('ffffffff', 'hex')

/** A2S of Valve: the info, and the names where there is somebody. Either question may first be answered by a challenge. */
export function askSource(target: QueryTarget): Promise<GamePlayers> {
  return overUdp(target, async (udp) => {
    const { online, max } = await ask(udp, { question: INFO, first: Buffer.alloc(0), kind: 0x49, read: readInfo })
    if (online === 0) return { online, max, names: [] }
    // Some servers keep their names to themselves.
    const named = ask(udp, { question: PLAYERS, first: ANY, kind: 0x44, read: readNames })
    return { online, max, names: await named.catch(() => []) }
  })
}

interface Question<T> {
  readonly question: Buffer
  /** What stands in the place of the challenge at first. */
  readonly first: Buffer
  readonly kind: number
  readonly read: (reader: ByteReader) => T
}

async function ask<T>(udp: UdpTalk, { question, first, kind, read }: Question<T>): Promise<T> {
  const send = (challenge: Buffer): Promise<{ challenge: Buffer } | { value: T }> =>
    udp.ask(Buffer.concat([question, challenge]), (answer) => {
      const reader = new ByteReader(answer)
      // An answer in several packets begins otherwise: who has so much to say is counted by the info.
      if (!reader.take(4).equals(ANY)) return undefined
      const found = reader.u8()
      if (found === 0x41) return { challenge: Buffer.from(reader.take(4)) }
      return found === kind ? { value: read(reader) } : undefined
    })
  let answer = await send(first)
  // A challenge may expire between two packets.
  for (let attempt = 0; attempt < 3 && 'challenge' in answer; attempt += 1) answer = await send(answer.challenge)
  if ('challenge' in answer) throw new Error('nothing but challenges')
  return answer.value
}

function readInfo(reader: ByteReader): { online: number; max: number } {
  reader.u8()
  for (const _ of ['name', 'map', 'folder', 'game']) reader.text()
  reader.u16le()
  return { online: reader.u8(), max: reader.u8() }
}

function readNames(reader: ByteReader): string[] {
  const names: string[] = []
  const count = reader.u8()
  while (names.length < Math.min(count, MOST_PLAYER_NAMES) && reader.left > 0) {
    reader.u8()
    names.push(reader.text())
    reader.take(8)
  }
  // Who is still connecting has no name yet.
  return names.filter((name) => name !== '')
}
