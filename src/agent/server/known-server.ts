import { AgentFailure } from '../failure.ts'
import type { ServerTable } from './commands.ts'
import type { GameServer } from './server.ts'

/** The server of that id; throws UNKNOWN_SERVER for one that this node does not have. */
export function knownServer(servers: ServerTable, serverId: string): GameServer {
  const server = servers.get(serverId)
  if (server === undefined) throw new AgentFailure('UNKNOWN_SERVER', 'This node does not know the server')
  return server
}
