import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { askTcp, type QueryTarget } from './exchange.ts'

const QUESTION = Buffer.from('030007', 'hex')
const GAME_INFO = 6

/** The game info of OpenTTD 12 and later. Clients count, whatever they do; whoever is asking is none. */
export function askOpenttd(target: QueryTarget): Promise<GamePlayers> {
  return askTcp(target, QUESTION, (bytes) => {
    if (bytes.length < 3) return undefined
    const length = bytes.readUInt16LE(0)
    if (bytes.length < length) return undefined
    const reader = new ByteReader(bytes.subarray(2, length))
    if (reader.u8() !== GAME_INFO) throw new Error('not the game info')
    return readInfo(reader)
  })
}

/** Each version of the game info puts its own fields in front of those of the version before. */
function readInfo(reader: ByteReader): GamePlayers {
  const version = reader.u8()
  if (version < 4 || version > 7) throw new Error(`game info of version ${version}`)
  if (version >= 7) reader.take(8)
  const extensions = version >= 6 ? reader.u8() : 0
  if (version >= 5) {
    reader.take(4)
    reader.text()
  }
  skipExtensions(reader, extensions)
  reader.take(8)
  reader.take(3)
  reader.text()
  reader.text()
  if (version < 6) reader.u8()
  reader.u8()
  const max = reader.u8()
  return { online: reader.u8(), max, names: [] }
}

/** Graphics and the like: by id and checksum, with their names, or by a number of a table. */
function skipExtensions(reader: ByteReader, kind: number): void {
  for (let left = reader.u8(); left > 0; left -= 1) {
    reader.take(kind === 2 ? 4 : 20)
    if (kind === 1) reader.text()
  }
}
