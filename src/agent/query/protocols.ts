import type { GamePlayers, QueryProtocol } from '../../shared/protocol/game-query.ts'
import { askArmagetron } from './armagetron.ts'
import { askBzflag } from './bzflag.ts'
import { askDemo } from './demo.ts'
import type { QueryTarget } from './exchange.ts'
import { askBedrock, askMinecraft } from './minecraft.ts'
import { askMumble } from './mumble.ts'
import { askOpenttd } from './openttd.ts'
import { askQuake3 } from './quake3.ts'
import { askSource } from './source.ts'
import { askTeeworlds } from './teeworlds.ts'

/** How a protocol is spoken, and over what its port must be open. */
interface ProtocolRow {
  readonly over: 'tcp' | 'udp'
  /** Who plays, as the game says it; rejects without a right answer. Numbers and names are not bounded yet. */
  readonly ask: (target: QueryTarget) => Promise<GamePlayers>
}

export const PROTOCOLS: Readonly<Record<QueryProtocol, ProtocolRow>> = {
  minecraft: { over: 'tcp', ask: askMinecraft },
  bedrock: { over: 'udp', ask: askBedrock },
  source: { over: 'udp', ask: askSource },
  quake3: { over: 'udp', ask: askQuake3 },
  teeworlds: { over: 'udp', ask: askTeeworlds },
  openttd: { over: 'tcp', ask: askOpenttd },
  bzflag: { over: 'tcp', ask: askBzflag },
  mumble: { over: 'udp', ask: askMumble },
  armagetron: { over: 'udp', ask: askArmagetron },
  demo: { over: 'tcp', ask: askDemo },
}
