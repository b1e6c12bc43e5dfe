import { getLogs, sendCommand, streamConsole } from '../../../../shared/api/console.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import type { Audit } from '../../../access/audit.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import { type Context, callerOf, type Route, route, type StreamRoute, streamRoute } from '../../../http/route.ts'
import { refuseByStatus, refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { statusOf } from '../servers/view.ts'
import { CommandLimit } from './command-limit.ts'
import type { ConsoleGateway } from './feed.ts'
import { logLine, parseLineId } from './frames.ts'
import type { Console } from './hub.ts'
import { type LogPage, type LogQuery, pageOfHeld, readLogPage } from './log-pages.ts'
import { typedCommand } from './typed-command.ts'

interface StreamDeps {
  readonly db: Db
  readonly clock: Clock
  readonly console: Console
  isOnline(nodeId: string): boolean
}

interface RouteDeps extends StreamDeps {
  readonly audit: Audit
  readonly settings: Settings
  readonly gateway: ConsoleGateway
}

/** Typed commands and pages of the log. */
export function consoleRoutes(deps: RouteDeps): Route[] {
  const { db, settings, clock } = deps
  const limit = new CommandLimit(clock)
  return [
    route(sendCommand, async ({ params, body }, context) => {
      const row = await serverOf(deps, params.serverId)
      limit.take(callerOf(context).userId, row.id, settings.get('limits.consoleCommandsPerMinute'))
      refuseByStatus(row, 'command', deps.isOnline(row.nodeId))
      await typeLine(deps, row, body.command, context)
      return { sent: true as const, timestamp: now(clock) }
    }),
    route(getLogs, async ({ params, query }) => {
      const row = await serverOf(deps, params.serverId)
      refuseSuspended(row)
      const { epoch, first, last, lines } = await logPage(deps, row, query)
      return {
        logs: epoch === null ? [] : lines.map((line) => logLine(epoch, line)),
        count: lines.length,
        requestedLines: query.lines,
        epoch,
        firstSeq: first,
        lastSeq: last,
      }
    }),
  ]

  /**
   * Resolves when the game has the line. The audit row comes first, so that no line reaches a game without one, whatever
   * ends meanwhile; a line that did not get there, or of which nobody can say, gets a second row with that outcome.
   */
  async function typeLine(
    { gateway, audit }: RouteDeps,
    row: ServerRow,
    text: string,
    { actor }: Pick<Context, 'actor'>,
  ) {
    const command = { command: typedCommand(text), length: text.length }
    const record = (details: Readonly<Record<string, unknown>>): Promise<void> =>
      db.write((tx) =>
        audit.record(tx, actor, {
          action: 'server.console_command',
          resource: 'server',
          resourceId: row.id,
          details,
        }),
      )
    await record(command)
    try {
      await gateway.request(row.nodeId, { op: 'console.input', serverId: row.id, lines: [text] })
    } catch (error) {
      const agentCode = agentCodeOf(error)
      // Without a word from the node itself the line may have reached the game.
      await record({ ...command, outcome: agentCode === undefined ? 'unknown' : 'refused' })
      if (agentCode !== 'NOT_RUNNING' && agentCode !== 'UNKNOWN_SERVER') throw error
      throw new PanelError('SERVER_INVALID_STATE', 'The server has ended meanwhile; nothing was typed', {
        meta: { currentStatus: statusOf(row), allowed: ['starting', 'running', 'stopping'] },
        cause: error,
      })
    }
  }
}

/** The live console. */
export function consoleStreams(deps: StreamDeps): StreamRoute[] {
  return [
    streamRoute(streamConsole, async ({ params, query }, context) => {
      const row = await serverOf(deps, params.serverId)
      refuseSuspended(row)
      const id = context.lastEventId ?? query.resume_console
      const resume = id === undefined ? undefined : parseLineId(id)
      const connection = context.open({ name: 'console', serverId: row.id, maxUnsentBytes: null })
      await deps.console.watch(row, connection, { resume, lines: query.lines })
    }),
  ]
}

async function logPage({ gateway, console, isOnline }: RouteDeps, row: ServerRow, query: LogQuery): Promise<LogPage> {
  const held = isOnline(row.nodeId) ? undefined : console.held(row.id)
  return held === undefined ? await readLogPage(gateway, row, query) : pageOfHeld(held, query)
}

async function serverOf({ db }: Pick<StreamDeps, 'db'>, serverId: string): Promise<ServerRow> {
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new PanelError('SERVER_NOT_FOUND', `There is no server ${serverId}`)
  return row
}
