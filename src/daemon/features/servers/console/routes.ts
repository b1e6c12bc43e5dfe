import { getLogs, sendCommand, streamConsole } from '../../../../shared/api/console.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Db } from '../../../db/db.ts'
import { type Route, route, type StreamRoute, streamRoute } from '../../../http/route.ts'
import { eulaFrame, eulaOf } from '../servers/eula.ts'
import { refuseSuspended } from '../servers/orders.ts'
import { findServerRow, type ServerRow } from '../servers/rows.ts'
import { logLine, parseLineId } from './frames.ts'
import type { Console } from './hub.ts'
import { type LogPage, type LogQuery, pageOfHeld, readLogPage } from './log-pages.ts'
import { commandDesk, type TypeDeps } from './operations.ts'

interface StreamDeps {
  readonly db: Db
  readonly clock: Clock
  readonly console: Console
  isOnline(nodeId: string): boolean
}

type RouteDeps = StreamDeps & TypeDeps

/** Typed commands and pages of the log. */
export function consoleRoutes(deps: RouteDeps): Route[] {
  const type = commandDesk(deps)
  return [
    route(sendCommand, (input, { principal }) => type(principal, input)),
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
      const eula = eulaOf(row)
      if (eula?.state === 'pending') connection.send('eula_required', { serverId: row.id, ...eulaFrame(row, eula) })
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
