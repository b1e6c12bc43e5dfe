import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { askTcp, type QueryTarget } from './exchange.ts'

const HELLO = Buffer.from('BZFLAG\r\n\r\n')
/** The server's name for its protocol, and the number that the connection gets. */
const GREETING_BYTES = 9
const QUERY_GAME = 0x7167
const TEAMS = 6

/** The game query of BZFlag 2.4; observers count as well. */
export function askBzflag(target: QueryTarget): Promise<GamePlayers> {
  const question = Buffer.alloc(4)
  question.writeUInt16BE(QUERY_GAME, 2)
  return askTcp(target, Buffer.concat([HELLO, question]), (bytes) => {
    if (bytes.length >= 4 && bytes.toString('latin1', 0, 4) !== 'BZFS') throw new Error('not BZFlag')
    if (bytes.length < GREETING_BYTES + 4) return undefined
    const reader = new ByteReader(bytes.subarray(GREETING_BYTES))
    const length = reader.u16be()
    if (reader.u16be() !== QUERY_GAME) throw new Error('not the answer to the question')
    return reader.left < length ? undefined : readGame(reader)
  })
}

function readGame(reader: ByteReader): GamePlayers {
  reader.take(4)
  const max = reader.u16be()
  reader.take(2)
  let online = 0
  for (let team = 0; team < TEAMS; team += 1) online += reader.u16be()
  return { online, max, names: [] }
}
