import { z } from 'zod'
import { isDeclared } from '../../shared/contract.ts'
import { PanelError } from '../../shared/errors.ts'
import { now } from '../../shared/time.ts'
import type { Caller } from './caller.ts'
import type { Door } from './http.ts'
import { parsePart } from './http-errors.ts'
import { permit } from './permit.ts'
import { callerOf, type StreamRoute } from './route.ts'
import { SseConnection } from './sse.ts'
import { StreamLimits } from './stream-limits.ts'

/** One open stream, as the re-check of rights sees it. */
interface OpenStream {
  readonly connection: SseConnection
  /** Ends the stream with the fitting frame when its right is gone. */
  check(): Promise<void>
}

/** Adds the event streams; their rights are looked at again whenever a credential changes, and at each heartbeat's pace. */
export function addStreams(door: Door, routes: readonly StreamRoute[]): void {
  const { deps } = door
  const limits = new StreamLimits(deps.settings)
  const open = new Set<OpenStream>()
  for (const route of routes) addStream(door, route, limits, open)
  deps.credentials.onChange(() => {
    for (const stream of open) void stream.check()
  })
  deps.stopping.addEventListener('abort', () => {
    for (const stream of open) stream.connection.fail('server_shutdown')
  })
}

function addStream(door: Door, { stream, handle }: StreamRoute, limits: StreamLimits, open: Set<OpenStream>): void {
  const { app, deps } = door
  const params = z.object(stream.params)
  app.get(stream.path, { onRequest: door.admit(stream), exposeHeadRoute: false }, async (request, reply) => {
    const context = door.context(stream, request, reply)
    const caller = callerOf(context)
    const input = {
      params: parsePart('params', params, request.params),
      query: isDeclared(stream.query) ? parsePart('query', stream.query, request.query) : undefined,
      body: undefined,
    }
    const header = request.headers['last-event-id']
    let entry: OpenStream | undefined
    let release = (): void => undefined
    try {
      await handle(input as never, {
        ...context,
        lastEventId: typeof header === 'string' && header !== '' ? header : undefined,
        open: (kind) => {
          release = limits.take(kind.name, caller.userId, kind.serverId)
          reply.hijack()
          reply.raw.setHeader('x-request-id', request.id)
          const connection = new SseConnection(reply.raw, deps.clock, kind.maxUnsentBytes)
          entry = {
            connection,
            check: () => recheck(door, stream.access, caller, request.params as Record<string, string>, connection),
          } // as in admit
          open.add(entry)
          deps.metrics.streams.inc({ stream: stream.id })
          void watchRight(door, entry)
          return connection
        },
      })
    } catch (error) {
      if (entry === undefined) throw error
      request.log.error({ err: error, requestId: request.id, endpoint: stream.id }, 'stream failed')
      const about = { component: 'streams', requestId: request.id, userId: caller.userId }
      deps.systemErrors?.capture(error, { ...about, metadata: { endpoint: stream.id } })
      entry.connection.fail('internal')
    } finally {
      release()
      if (entry !== undefined) {
        open.delete(entry)
        deps.metrics.streams.dec({ stream: stream.id })
        entry.connection.end()
      }
    }
    return reply
  })
}

/** The safety net behind the change events: also finds what merely expired. */
async function watchRight({ deps }: Door, stream: OpenStream): Promise<void> {
  while (!stream.connection.closed.aborted) {
    await deps.clock.sleep(25_000, stream.connection.closed)
    if (!stream.connection.closed.aborted) await stream.check()
  }
}

async function recheck(
  { deps }: Door,
  access: StreamRoute['stream']['access'],
  caller: Caller,
  params: Record<string, string>,
  connection: SseConnection,
): Promise<void> {
  const present = await deps.credentials.recheck(caller)
  if (present === 'expired') return connection.fail('auth_expired', { code: 'AUTH_EXPIRED' })
  if (present === 'unknown') return connection.fail('auth_failed', { code: 'UNAUTHENTICATED' })
  try {
    await permit({ q: deps.db.read, now: now(deps.clock) }, access, present, params)
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    connection.fail('permission_denied', { code: 'PERMISSION_DENIED' })
  }
}
