import { randomBytes } from 'node:crypto'
import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { ByteReader } from './byte-reader.ts'
import { overUdp, type QueryTarget } from './exchange.ts'

/** The ping of Mumble: how many are connected, and how many may be. */
export function askMumble(target: QueryTarget): Promise<GamePlayers> {
  const own = randomBytes(8)
  const question = Buffer.concat([Buffer.alloc(4), own])
  return overUdp(target, (udp) =>
    udp.ask(question, (answer) => {
      const reader = new ByteReader(answer)
      reader.take(4)
      if (!reader.take(8).equals(own)) return undefined
      return { online: reader.u32be(), max: reader.u32be(), names: [] }
    }),
  )
}
