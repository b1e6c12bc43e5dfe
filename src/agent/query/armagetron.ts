import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { overUdp, type QueryTarget } from './exchange.ts'

/** The request for the big server info, by nobody who is logged in. */
const QUESTION = Buffer.from('0035000000000011', 'hex')
const COLOUR = /0x(?:[0-9a-f]{6}|RESETT)/gi

/** The server info of Armagetron Advanced. */
export function askArmagetron(target: QueryTarget): Promise<GamePlayers> {
  return overUdp(target, (udp) => udp.ask(QUESTION, (answer) => readInfo(new ByteReader(answer))))
}

function readInfo(reader: ByteReader): GamePlayers {
  reader.take(6)
  number(reader)
  text(reader)
  text(reader)
  const online = number(reader)
  for (const _ of ['oldest', 'newest']) number(reader)
  text(reader)
  const max = number(reader)
  const names = text(reader).split('\n')
  return { online, max, names: names.map((name) => name.replace(COLOUR, '').trim()).filter((name) => name !== '') }
}

/** The lower half comes first. */
function number(reader: ByteReader): number {
  const low = reader.u16be()
  return reader.u16be() * 0x1_0000 + low
}

/** A text in words of two characters, the second one first; its length counts a NUL at its end. */
function text(reader: ByteReader): string {
  const length = reader.u16be()
  const bytes = Buffer.from(reader.take(length + (length % 2)))
  return bytes.swap16().toString('latin1', 0, Math.max(0, length - 1))
}
