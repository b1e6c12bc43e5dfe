import { z } from 'zod'
import { AgentText } from '../kernel/agent-text.ts'

/**
 * How a game is asked who plays. `minecraft`: Java 1.7 and later (TCP); `bedrock`: its UDP ping; `source`: A2S of Valve;
 * `quake3`: getstatus; `teeworlds`: 0.7; `openttd`: 12 and later (TCP); `demo`: the demo game of the panel.
 */
export const QueryProtocol = z.enum([
  'minecraft',
  'bedrock',
  'source',
  'quake3',
  'teeworlds',
  'openttd',
  'bzflag',
  'mumble',
  'armagetron',
  'demo',
])
export type QueryProtocol = z.infer<typeof QueryProtocol>

/** How the agent asks a running server who plays. Without `port` its primary one is asked. */
export const GameQuery = z.object({ protocol: QueryProtocol, port: z.int().min(1).max(65_535).optional() })
export type GameQuery = z.infer<typeof GameQuery>

/** How many names of players are reported, and how long each may be. */
export const MOST_PLAYER_NAMES = 100
const MOST_NAME = 48

/** More players than this no game has; what says so is no answer. */
export const MOST_PLAYERS = 100_000

/** Who plays on a server, by its game's own answer. `max: null`: the game does not say; `names` may be fewer than `online`. */
export const GamePlayers = z.object({
  online: z.int().min(0).max(MOST_PLAYERS),
  max: z.int().min(0).max(MOST_PLAYERS).nullable(),
  names: z.array(AgentText(MOST_NAME)).max(MOST_PLAYER_NAMES),
})
export type GamePlayers = z.infer<typeof GamePlayers>
