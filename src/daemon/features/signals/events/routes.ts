import { streamAdminEvents } from '../../../../shared/api/admin.ts'
import { streamServerEvents } from '../../../../shared/api/server-events.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { EVENTS, isEventType } from '../../../../shared/kernel/events.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import type { Bus } from '../../../core/bus.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Db } from '../../../db/db.ts'
import { callerOf, type StreamRoute, streamRoute } from '../../../http/route.ts'
import type { SseConnection } from '../../../http/sse.ts'
import type { CommandReports } from '../../servers/servers/command-progress.ts'
import { findServerRow } from '../../servers/servers/rows.ts'
import type { ServerUsageBoard } from '../../servers/servers/usage.ts'
import { follow, typesOf } from './follow.ts'
import { Scope } from './scope.ts'

/** Bytes a viewer may leave unread; beyond, the stream says so and they have to resume. */
const MAX_UNSENT = 1024 * 1024

/** What the event streams need. */
interface EventDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly settings: Settings
  readonly credentials: Credentials
  readonly usage: ServerUsageBoard
  readonly commandReports: CommandReports
}

/** The streams over the event log: of one server, of all visible servers, and of the administration. */
export function eventStreams(deps: EventDeps): StreamRoute[] {
  const { db, bus, settings, usage, commandReports } = deps
  bus.listen((event) => {
    if (event.type === 'server_deleted' && event.serverId !== null) usage.forget(event.serverId)
  })
  return [
    streamRoute(streamServerEvents, async ({ params, query }, context) => {
      const { serverId } = params
      const all = serverId === 'all-servers'
      const types = typesOf(query.types, (type) => LIVE.has(type) || (isEventType(type) && EVENTS[type].server))
      const row = all ? undefined : await findServerRow(db.read, serverId)
      if (!all && row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
      const caller = callerOf(context)
      const connection = context.open({ name: 'events', ...(all ? {} : { serverId }), maxUnsentBytes: MAX_UNSENT })
      const scope = new Scope(deps, caller)
      const deleted = (): void => connection.fail('server_deleted', { serverId })
      let endUsage = (): void => undefined
      let endProgress = (): void => undefined
      try {
        await follow({
          bus,
          connection,
          epoch: settings.get('install.epoch'),
          lastEventId: context.lastEventId,
          types,
          hello: { serverId, isGlobal: all },
          mayPass: async (event) =>
            EVENTS[event.type].server &&
            (all ? await scope.sees(event) : event.serverId === serverId) &&
            (await scope.mayKnow(event)),
          cut: (event) => scope.cut(event),
          begun: async () => {
            // It may have gone between the first look and the place in the log that this stream begins at.
            if (!all && (await findServerRow(db.read, serverId)) === undefined) return deleted()
            endUsage = sendUsage(usage, connection, { row, types, scope })
            endProgress = sendProgress(commandReports, connection, { row, types, scope })
          },
          passed: (event) => {
            if (!all && event.type === 'server_deleted' && event.serverId === serverId) deleted()
          },
        })
      } finally {
        endUsage()
        endProgress()
      }
    }),
    streamRoute(streamAdminEvents, async ({ query }, context) => {
      const types = typesOf(query.types, isEventType)
      const caller = callerOf(context)
      const connection = context.open({ name: 'admin', maxUnsentBytes: MAX_UNSENT })
      const scope = new Scope(deps, caller)
      await follow({
        bus,
        connection,
        epoch: settings.get('install.epoch'),
        lastEventId: context.lastEventId,
        types,
        hello: { userId: caller.userId },
        mayPass: (event) => scope.holds(event),
      })
    }),
  ]
}

/** What streams carry of servers beside what is written down. */
const LIVE: ReadonlySet<string> = new Set(['resource_stats', 'server_command_progress'])

/** Pushes how far commands are; a slow reader gets the next report. */
function sendProgress(
  reports: CommandReports,
  connection: SseConnection,
  viewer: { row: { id: string } | undefined; types: ReadonlySet<string> | undefined; scope: Scope },
): () => void {
  const { row, types, scope } = viewer
  if (types !== undefined && !types.has('server_command_progress')) return () => undefined
  return reports.listen((report) => {
    const push = (): void => {
      if (connection.unsentBytes === 0) connection.send('server_command_progress', { ...report })
    }
    if (row !== undefined) {
      if (report.serverId === row.id) push()
      return
    }
    scope.seesServer(report.serverId).then(
      (sees) => (sees ? push() : undefined),
      () => connection.fail('internal'),
    )
  })
}

/** Pushes usage as it comes; the newest stands for all that a slow reader has missed. */
function sendUsage(
  usage: ServerUsageBoard,
  connection: SseConnection,
  viewer: { row: { id: string; nodeId: string } | undefined; types: ReadonlySet<string> | undefined; scope: Scope },
): () => void {
  const { row, types, scope } = viewer
  if (types !== undefined && !types.has('resource_stats')) return () => undefined
  const push = (serverId: string): void => {
    const now = usage.get(serverId)
    // What waits unsent is usage or worth more; the next usage is newer anyway.
    if (now !== undefined && connection.unsentBytes === 0) connection.send('resource_stats', { serverId, ...now })
  }
  const stop = usage.listen((serverId) => {
    if (row !== undefined) {
      if (serverId === row.id) push(serverId)
      return
    }
    scope.seesServer(serverId).then(
      (sees) => (sees ? push(serverId) : undefined),
      () => connection.fail('internal'),
    )
  })
  if (row !== undefined && !connection.closed.aborted) push(row.id)
  const unwatch = row === undefined ? undefined : usage.watch(row.nodeId, row.id)
  return () => {
    stop()
    unwatch?.()
  }
}
