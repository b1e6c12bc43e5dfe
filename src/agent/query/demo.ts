import { z } from 'zod'
import { isDeeperThan, MOST_BODY_DEPTH } from '../../shared/kernel/json-depth.ts'
import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { askTcp, type QueryTarget } from './exchange.ts'

const Answer = z.object({ players: z.int(), max: z.int() })
const LINE_FEED = 0x0a

/** The demo game's own question. Who is slow to ask is greeted like a person before the answer. */
export function askDemo(target: QueryTarget): Promise<GamePlayers> {
  return askTcp(target, Buffer.from('QUERY\n'), (bytes) => {
    const lines = bytes.toString('utf8', 0, bytes.lastIndexOf(LINE_FEED) + 1).split('\n')
    const line = lines.find((one) => one.startsWith('{'))
    if (line === undefined) return undefined
    if (isDeeperThan(line, MOST_BODY_DEPTH)) throw new Error('the answer is nested too deep')
    const { players, max } = Answer.parse(JSON.parse(line))
    return { online: players, max, names: [] }
  })
}
