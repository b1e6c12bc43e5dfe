import type { AgentFrame, AgentRequest, PortsResult } from '../../shared/protocol/frames.ts'
import { type ConsoleFeeds, fetchLines } from '../console/console.ts'
import { AgentFailure } from '../failure.ts'
import { type AgentLog, errorText } from '../logger.ts'
import type { Stats } from '../node/stats.ts'
import type { ServerTable } from '../server/commands.ts'
import { describeOrphan, listOrphans, type NodeHoldings } from '../server/orphans.ts'
import { takenPorts } from '../server/ports.ts'
import type { GameServer } from '../server/server.ts'
import { typeStop } from '../server/stop.ts'

/** What the answers to requests are made from. */
export interface RequestDeps {
  readonly servers: ServerTable
  readonly feeds: ConsoleFeeds
  readonly stats: Stats
  readonly holdings: NodeHoldings
  readonly log: AgentLog
}

/** Answers a request; a failure is an answer as well. */
export async function answer(deps: RequestDeps, id: string, request: AgentRequest): Promise<AgentFrame> {
  try {
    return { type: 'reply', id, error: null, result: (await perform(deps, request)) ?? null }
  } catch (error) {
    if (error instanceof AgentFailure) return { type: 'reply', id, error: error.toFrame(), result: null }
    deps.log.error({ op: request.op, err: errorText(error) }, 'a request failed for a reason that was not foreseen')
    return {
      type: 'reply',
      id,
      error: { code: 'INTERNAL', message: 'The agent could not answer the request' },
      result: null,
    }
  }
}

async function perform(deps: RequestDeps, request: AgentRequest): Promise<unknown> {
  switch (request.op) {
    case 'console.input':
      return await typeLines(serverOf(deps, request.serverId), request.lines)
    case 'console.subscribe':
      return await deps.feeds.subscribe(serverOf(deps, request.serverId).console, request)
    case 'console.unsubscribe':
      return deps.feeds.unsubscribe(request.serverId)
    case 'console.fetch':
      return await fetchLines(serverOf(deps, request.serverId).console, request)
    case 'ports.check':
      return { taken: (await takenPorts(request.ports)).filter(({ passing }) => !passing) } satisfies PortsResult
    case 'orphans.list':
      return await listOrphans(deps.holdings, new Set(request.known))
    case 'orphans.describe':
      return describeOrphan(deps.holdings, request.serverId)
    case 'stats.watch':
      return deps.stats.watch(request.serverIds)
  }
}

function serverOf(deps: RequestDeps, serverId: string): GameServer {
  const server = deps.servers.get(serverId)
  if (server === undefined) throw new AgentFailure('UNKNOWN_SERVER', 'This node does not know the server')
  return server
}

/**
 * Types lines into a game. A typed stop command makes an end expected that comes within the time of the stop rule: a game
 * that does not heed it and ends later has ended by itself.
 */
async function typeLines(server: GameServer, lines: readonly string[]): Promise<void> {
  for (const line of lines) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly these would make more than one line of it
    if (/[\u0000\r\n]/.test(line))
      throw new AgentFailure('BAD_REQUEST', 'A console line must not contain NUL or line ends')
  }
  for (const line of lines) {
    const { game, rules } = server
    if (game === undefined) throw new AgentFailure('NOT_RUNNING', 'The server is not running')
    const isStop = rules.stop.type === 'command' && line.trim() === rules.stop.value.trim()
    await (isStop ? typeStop(server, game, line) : game.run.input(line))
  }
}
