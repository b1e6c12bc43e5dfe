import type { Clock } from '../../shared/kernel/time.ts'
import { GamePlayers, MOST_PLAYER_NAMES, type QueryProtocol } from '../../shared/protocol/game-query.ts'
import { PROTOCOLS } from './protocols.ts'

const ANSWER_MS = 2000

/**
 * Asks a game who plays, within 2 s. What it answers is bounded: numbers that no game has are no answer, names are cut. Rejects
 * when there is no right answer.
 */
export async function queryPlayers(
  protocol: QueryProtocol,
  { host, port, clock, signal }: { host: string; port: number; clock: Clock; signal: AbortSignal },
): Promise<GamePlayers> {
  const late = new AbortController()
  const over = new AbortController()
  void clock.sleep(ANSWER_MS, AbortSignal.any([over.signal, signal])).then(() => late.abort())
  try {
    const players = await PROTOCOLS[protocol].ask({ host, port, clock, signal: late.signal })
    const { online, max, names } = players
    return GamePlayers.parse({ online, max, names: names.slice(0, MOST_PLAYER_NAMES) })
  } finally {
    over.abort()
  }
}
