import { z } from 'zod'
import { isDeclared } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { StreamError } from '../../shared/kernel/events.ts'
import { type IsoTime, now } from '../../shared/kernel/time.ts'
import type { Caller } from '../access/caller.ts'
import { permit } from '../access/permit.ts'
import { parsePart } from './errors.ts'
import { answerHeaders } from './headers.ts'
import { callerOf, type StreamRoute } from './route.ts'
import type { HttpServer } from './server.ts'
import { SseConnection } from './sse.ts'
import { RETRY_AFTER_SECONDS, StreamLimits } from './stream-limits.ts'

const RECHECK_MS = 25_000
/** A check at the very instant of the end could come a moment too early. */
const AFTER_EXPIRY_MS = 50

/** The streams that are open now. */
export interface OpenStreams {
  /** Says something on all streams of a user; they stay open. */
  report(userId: string, error: StreamError['error'], extra: Readonly<Record<string, unknown>>): void
}

/** One open stream, as the re-check of rights sees it. */
interface OpenStream {
  readonly connection: SseConnection
  readonly userId: string
  /** What it counts as, with the limits that hold now. */
  places(): readonly (readonly [string, number])[]
  /** Ends the stream with the fitting frame when its right is gone; answers until when its credential lives. */
  check(): Promise<IsoTime | null>
}

/**
 * Adds the event streams; their rights are looked at again whenever a credential changes, at the end of a credential's life,
 * and at each heartbeat's pace. When a limit is lowered, the newest streams beyond it end with `connection_limit`.
 */
export function addStreams(http: HttpServer, routes: readonly StreamRoute[]): OpenStreams {
  const { deps } = http
  const limits = new StreamLimits(deps.settings)
  const open = new Set<OpenStream>()
  for (const route of routes) addStream(http, route, limits, open)
  deps.credentials.onChange(() => {
    for (const stream of open) void stream.check()
  })
  deps.stopping.addEventListener('abort', () => {
    for (const stream of open) stream.connection.fail('server_shutdown')
  })
  const settled = deps.settings.onChange((key) => {
    if (key === 'limits.streamsPerServer' || key === 'limits.streamsPerUser') endSurplus(open)
  })
  deps.stopping.addEventListener('abort', settled)
  return {
    report: (userId, error, extra) => {
      for (const stream of open) if (stream.userId === userId) stream.connection.report(error, extra)
    },
  }
}

/** A set keeps the order in which streams were opened: those that find their places taken by older ones end. */
function endSurplus(open: ReadonlySet<OpenStream>): void {
  const taken = new Map<string, number>()
  for (const { connection, places } of open) {
    if (connection.closed.aborted) continue
    if (places().some(([place, limit]) => (taken.get(place) ?? 0) >= limit)) {
      connection.fail('connection_limit', { code: 'STREAM_LIMIT_REACHED', retryAfterSeconds: RETRY_AFTER_SECONDS })
      continue
    }
    for (const [place] of places()) taken.set(place, (taken.get(place) ?? 0) + 1)
  }
}

function addStream(
  http: HttpServer,
  { stream, handle }: StreamRoute,
  limits: StreamLimits,
  open: Set<OpenStream>,
): void {
  const { app, deps } = http
  const params = z.object(stream.params)
  app.get(
    stream.path,
    {
      config: { endpoint: stream },
      onRequest: http.admit(stream),
      exposeHeadRoute: false,
    },
    async (request, reply) => {
      const context = http.context(stream, request, reply)
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
          signal: context.signal, // of the class, which a copy has not
          lastEventId: typeof header === 'string' && header !== '' ? header : undefined,
          open: (kind) => {
            release = limits.take(kind.name, caller.userId, kind.serverId)
            reply.hijack()
            for (const [name, value] of Object.entries(answerHeaders(request))) reply.raw.setHeader(name, value)
            reply.raw.setHeader('x-request-id', request.id)
            const connection = new SseConnection(reply.raw, deps.clock, kind.maxUnsentBytes)
            entry = {
              connection,
              userId: caller.userId,
              places: () => limits.placesOf(kind.name, caller.userId, kind.serverId),
              check: () => recheck(http, stream.access, caller, request.params as Record<string, string>, connection),
            } // as in admit
            open.add(entry)
            deps.metrics.streams.inc({ stream: stream.id })
            void watchRight(http, entry, caller.expiresAt)
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
    },
  )
}

/** The safety net behind the change events: finds what merely expired, within a second of its end. */
async function watchRight({ deps }: HttpServer, stream: OpenStream, expiresAt: IsoTime | null): Promise<void> {
  let until = expiresAt
  while (!stream.connection.closed.aborted) {
    const left = until === null ? RECHECK_MS : Date.parse(until) - deps.clock.nowMs()
    await deps.clock.sleep(Math.min(RECHECK_MS, Math.max(left, AFTER_EXPIRY_MS)), stream.connection.closed)
    if (!stream.connection.closed.aborted) until = await stream.check()
  }
}

async function recheck(
  { deps }: HttpServer,
  access: StreamRoute['stream']['access'],
  caller: Caller,
  params: Record<string, string>,
  connection: SseConnection,
): Promise<IsoTime | null> {
  const present = await deps.credentials.recheck(caller)
  if (present === 'expired') connection.fail('auth_expired', { code: 'AUTH_EXPIRED' })
  if (present === 'unknown') connection.fail('auth_failed', { code: 'UNAUTHENTICATED' })
  if (typeof present === 'string') return null
  try {
    await permit({ q: deps.db.read, now: now(deps.clock) }, access, present, params)
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    connection.fail('permission_denied', { code: 'PERMISSION_DENIED' })
  }
  return present.expiresAt
}
