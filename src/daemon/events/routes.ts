import { streamAdminEvents } from '../../shared/api/admin.ts'
import { streamServerEvents } from '../../shared/api/servers.ts'
import { PanelError } from '../../shared/errors.ts'
import { EVENTS, isEventType } from '../../shared/events.ts'
import { grants } from '../../shared/permissions.ts'
import type { Bus, BusEvent } from '../core/bus.ts'
import type { Caller, Credentials } from '../core/caller.ts'
import type { Db } from '../core/db.ts'
import { serverPermissions, visibleServers } from '../core/permit.ts'
import { callerOf, type StreamRoute, streamRoute } from '../core/route.ts'
import type { Settings } from '../core/settings.ts'
import type { SseConnection } from '../core/sse.ts'
import type { Figures } from '../servers/figures.ts'
import { findServerRow } from '../servers/repo.ts'
import { follow, typesOf } from './follow.ts'

/** Bytes a viewer may leave unread; beyond, he is told and has to resume (decisions #35). */
const MAX_UNSENT = 1024 * 1024

/** What the event streams need. */
interface EventDeps {
  readonly db: Db
  readonly bus: Bus
  readonly settings: Settings
  readonly credentials: Credentials
  readonly figures: Figures
}

/** The streams over the event log: of one server, of all visible servers, and of the administration. */
export function eventStreams(deps: EventDeps): StreamRoute[] {
  const { db, bus, settings, credentials, figures } = deps
  bus.listen((event) => {
    if (event.type === 'server_deleted' && event.serverId !== null) figures.forget(event.serverId)
  })
  return [
    streamRoute(streamServerEvents, async ({ params, query }, context) => {
      const { serverId } = params
      const all = serverId === 'all-servers'
      const types = typesOf(
        query.types,
        (type) => type === 'resource_stats' || (isEventType(type) && EVENTS[type].server),
      )
      const row = all ? undefined : await findServerRow(db.read, serverId)
      if (!all && row === undefined) throw new PanelError('SERVER_NOT_FOUND', 'There is no such server')
      const caller = callerOf(context)
      const connection = context.open({ name: 'events', ...(all ? {} : { serverId }), maxUnsentBytes: MAX_UNSENT })
      const scope = new Scope(db, credentials, caller)
      const deleted = (): void => connection.fail('server_deleted', { serverId })
      let endFigures = (): void => undefined
      try {
        await follow({
          bus,
          connection,
          epoch: settings.get('install.epoch'),
          lastEventId: context.lastEventId,
          types,
          hello: { serverId, isGlobal: all },
          mayPass: (event) => EVENTS[event.type].server && (all ? scope.sees(event) : event.serverId === serverId),
          begun: async () => {
            // It may have gone between the first look and the place in the log that this stream begins at.
            if (!all && (await findServerRow(db.read, serverId)) === undefined) return deleted()
            endFigures = sendFigures(figures, connection, { row, types, scope })
          },
          passed: (event) => {
            if (!all && event.type === 'server_deleted' && event.serverId === serverId) deleted()
          },
        })
      } finally {
        endFigures()
      }
    }),
    streamRoute(streamAdminEvents, async ({ query }, context) => {
      const types = typesOf(query.types, isEventType)
      const caller = callerOf(context)
      const connection = context.open({ name: 'admin', maxUnsentBytes: MAX_UNSENT })
      const scope = new Scope(db, credentials, caller)
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

/** What a caller may see, by what he may do now: rights that change while a stream is open hold from the next event on. */
class Scope {
  readonly #db: Db
  readonly #credentials: Credentials
  readonly #first: Caller

  constructor(db: Db, credentials: Credentials, caller: Caller) {
    this.#db = db
    this.#credentials = credentials
    this.#first = caller
  }

  /** Holds the permission that this type of event asks for, panel-wide. */
  async holds(event: BusEvent): Promise<boolean> {
    const caller = await this.#caller()
    return caller !== undefined && grants(caller.permissions, EVENTS[event.type].permission)
  }

  /** May read the server that the event is about. A deleted one is known to whom all servers are, and to its owner. */
  async sees(event: BusEvent): Promise<boolean> {
    const caller = await this.#caller()
    if (caller === undefined || event.serverId === null) return false
    const visible = visibleServers(caller)
    if (visible === 'all') return true
    if (event.type === 'server_deleted' && visible.ownerId !== null && event.data['ownerId'] === visible.ownerId)
      return true
    return (await serverPermissions(this.#db.read, caller, event.serverId, ['server.read'])).length > 0
  }

  async seesServer(serverId: string): Promise<boolean> {
    const caller = await this.#caller()
    return (
      caller !== undefined && (await serverPermissions(this.#db.read, caller, serverId, ['server.read'])).length > 0
    )
  }

  async #caller(): Promise<Caller | undefined> {
    const caller = await this.#credentials.recheck(this.#first)
    return typeof caller === 'string' ? undefined : caller
  }
}

/** Pushes figures as they come; the newest stands for all that a slow reader has missed. */
function sendFigures(
  figures: Figures,
  connection: SseConnection,
  viewer: { row: { id: string; nodeId: string } | undefined; types: ReadonlySet<string> | undefined; scope: Scope },
): () => void {
  const { row, types, scope } = viewer
  if (types !== undefined && !types.has('resource_stats')) return () => undefined
  const push = (serverId: string): void => {
    const now = figures.get(serverId)
    // What waits unsent is figures or more of worth; the next figures are newer anyway.
    if (now !== undefined && connection.unsentBytes === 0) connection.send('resource_stats', { serverId, ...now })
  }
  const stop = figures.listen((serverId) => {
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
  const unwatch = row === undefined ? undefined : figures.watch(row.nodeId, row.id)
  return () => {
    stop()
    unwatch?.()
  }
}
