import { fetchConsole, subscribeConsole, typeConsoleLines, unsubscribeConsole } from '../../shared/protocol/console.ts'
import { sendConsoleLog } from '../../shared/protocol/files.ts'
import { AgentFailure } from '../failure.ts'
import type { Bulk } from '../link/bulk.ts'
import { onRequest, type RequestHandler } from '../link/request-handler.ts'
import type { ServerTable } from '../server/commands.ts'
import { knownServer } from '../server/known-server.ts'
import type { GameServer } from '../server/server.ts'
import { typeStop } from '../server/stop.ts'
import { fetchLines } from './console.ts'
import { logText } from './log-text.ts'
import { typeLine } from './type-line.ts'

/** What the answers to requests of consoles are made from. */
export interface ConsoleRequestDeps {
  readonly servers: ServerTable
  readonly bulk: Bulk
}

/** The requests of consoles. */
export function consoleRequests({ servers, bulk }: ConsoleRequestDeps): readonly RequestHandler[] {
  return [
    onRequest(typeConsoleLines, ({ serverId, lines }, { signal }) =>
      typeLines(knownServer(servers, serverId), lines, signal),
    ),
    onRequest(subscribeConsole, (input, { feeds }) =>
      feeds.subscribe(knownServer(servers, input.serverId).console, input),
    ),
    onRequest(unsubscribeConsole, ({ serverId }, { feeds }) => feeds.unsubscribe(serverId)),
    onRequest(sendConsoleLog, async ({ serverId, ticket }, watch) => ({
      sha256: await bulk.deliver(ticket, logText(knownServer(servers, serverId).console), watch),
    })),
    onRequest(fetchConsole, (input) => fetchLines(knownServer(servers, input.serverId).console, input)),
  ]
}

/**
 * Types lines into a game. A typed stop command makes an end expected that comes within the time of the stop rule: a game
 * that does not heed it and ends later has ended by itself.
 */
async function typeLines(server: GameServer, lines: readonly string[], signal: AbortSignal): Promise<void> {
  for (const line of lines) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these would make more than one line of it
    if (/[\u0000\r\n]/.test(line)) throw new AgentFailure('BAD_REQUEST', 'must not contain NUL or line ends')
  }
  for (const line of lines) {
    if (signal.aborted) throw new AgentFailure('INTERRUPTED', 'Nobody waits for the rest of the lines any more')
    const { game, rules } = server
    if (game === undefined) throw new AgentFailure('NOT_RUNNING', 'The server is not running')
    const isStop = rules.stop.type === 'command' && line.trim() === rules.stop.value.trim()
    await (isStop ? typeStop(server, game, { line, signal }) : typeLine(server, game, line, { signal }))
  }
}
