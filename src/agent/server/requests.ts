import { answerEula as answerEulaRequest } from '../../shared/protocol/server.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from './commands.ts'
import { answerEula } from './eula.ts'
import { knownServer } from './known-server.ts'

/** What the answers to requests about the life of servers are made from. */
export interface ServerRequestDeps {
  readonly servers: ServerTable
}

/** The requests about the life of servers. */
export function serverRequests({ servers }: ServerRequestDeps): readonly RequestHandler[] {
  return [
    onRequest(answerEulaRequest, ({ serverId, accepted }) => {
      const server = knownServer(servers, serverId)
      // In turn with its orders: a start that is under way looks at the file as it was, or as it becomes.
      return server.order(() => answerEula(server, accepted))
    }),
  ]
}
