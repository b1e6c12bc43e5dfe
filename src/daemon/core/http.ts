import cookie from '@fastify/cookie'
import rateLimit from '@fastify/rate-limit'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
} from 'fastify'
import { z } from 'zod'
import { type Endpoint, isDeclared, type StreamEndpoint } from '../../shared/contract.ts'
import { ERRORS, type ErrorCode, PanelError } from '../../shared/errors.ts'
import { type Clock, now } from '../../shared/time.ts'
import type { Caller, Credentials } from './caller.ts'
import type { Db } from './db.ts'
import { answering, send, sendRaw } from './http-answers.ts'
import { errorBody, parsePart, sendError, toPanelError } from './http-errors.ts'
import type { Idempotency, SentAnswer } from './idempotency.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { permit, permitServer } from './permit.ts'
import { createRateLimits, kindOfPath, type RateLimits } from './rate-limits.ts'
import { requestIds } from './request-ids.ts'
import type { Context, Route } from './route.ts'
import type { Settings } from './settings.ts'
import type { SystemErrors } from './system-errors.ts'
import { endUnusedConnections } from './unused-connections.ts'

/** The name of the session cookie. */
export const SESSION_COOKIE = 'panel_session'

/** What the HTTP door is made of. */
export interface HttpDeps {
  readonly db: Db
  readonly credentials: Credentials
  readonly idempotency: Idempotency
  readonly settings: Settings
  readonly metrics: Metrics
  readonly log: Log
  readonly clock: Clock
  /** Aborts when the daemon begins to stop. */
  readonly stopping: AbortSignal
  /** Addresses of proxies whose forwarded headers count. */
  readonly trustedProxies: readonly string[]
  /** Where bugs are written down, beside the log. */
  readonly systemErrors?: Pick<SystemErrors, 'capture'>
  readonly tls: { readonly cert: string; readonly key: string } | undefined
}

/** Who made a request, as the doors of `core` keep it beside the request. */
interface Known {
  readonly caller: Caller | undefined
  readonly byCookie: boolean
}

/** The parts that JSON routes and streams share. */
export interface Door {
  readonly app: FastifyInstance
  readonly deps: HttpDeps
  /** Address limit, caller, key limit, permission: in that order, before the body (decisions #9). */
  admit(endpoint: Endpoint | StreamEndpoint): (request: FastifyRequest) => Promise<void>
  context(endpoint: Endpoint | StreamEndpoint, request: FastifyRequest, reply: FastifyReply): Context
}

/** The HTTP server, with error handling and request ids, without any route. */
export async function createDoor(deps: HttpDeps): Promise<Door> {
  const logger: FastifyBaseLogger = deps.log.child({ component: 'http' })
  const options = {
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: deps.trustedProxies.length > 0 ? [...deps.trustedProxies] : false,
    // A logger of each request's own costs more than most requests; its id is a field of what is logged.
    childLoggerFactory: (parent: FastifyBaseLogger) => parent,
    genReqId: requestIds(deps.clock),
    forceCloseConnections: 'idle',
    routerOptions: { maxParamLength: 200 },
    // A URL that cannot be decoded is refused before any route or hook, so the header is set here.
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
      sendError(reply.header('x-request-id', request.id), toPanelError(error), request.id),
  } as const satisfies FastifyServerOptions
  const app: FastifyInstance = deps.tls === undefined ? Fastify(options) : Fastify({ ...options, https: deps.tls })
  endUnusedConnections(app, deps.tls === undefined ? 'connection' : 'secureConnection')
  await app.register(cookie)
  await app.register(rateLimit, { global: false })
  const limits = createRateLimits(app, deps.settings)
  const known = new WeakMap<FastifyRequest, Known>()
  readEmptyBodies(app)
  app.addHook('onSend', (request, reply, _, done) => {
    reply
      .header('x-request-id', request.id)
      .header('x-content-type-options', 'nosniff')
      .header('cache-control', 'no-store')
    done()
  })
  app.setNotFoundHandler((request, reply) =>
    sendError(
      reply,
      new PanelError('NOT_FOUND', `There is no ${request.method} ${request.url.split('?')[0]}`),
      request.id,
    ),
  )
  app.setErrorHandler((error, request, reply) => {
    const failure = toPanelError(error)
    if (failure.code === 'INTERNAL_ERROR') {
      const { id: requestId, method, routeOptions } = request
      request.log.error({ err: failure.cause ?? failure, requestId }, 'request failed')
      const userId = known.get(request)?.caller?.userId
      const metadata = { method, path: routeOptions.url }
      deps.systemErrors?.capture(failure.cause ?? failure, { component: 'http', requestId, userId, metadata })
    }
    return sendError(reply, failure, request.id)
  })
  return {
    app,
    deps,
    admit: (endpoint) => async (request) => {
      if (deps.stopping.aborted) throw new PanelError('SHUTTING_DOWN', 'The daemon is stopping; try again in a moment')
      known.set(request, await identify(deps, limits, endpoint, request))
      const params = request.params as Record<string, string> // find-my-way gives exactly this
      await permit({ q: deps.db.read, now: now(deps.clock) }, endpoint.access, known.get(request)?.caller, params)
    },
    context: (_, request, reply) => makeContext(deps, known.get(request)?.caller, request, reply),
  }
}

/** Adds a JSON route; everything around its handler is decided by its contract. */
export function addRoute(door: Door, { endpoint, handle }: Route): void {
  const { app, deps } = door
  const params = z.object(endpoint.params)
  const answer = answering({ endpoint, handle })
  const counter = (status: number): void => deps.metrics.requests.inc({ endpoint: endpoint.id, status: String(status) })
  app.route({
    method: endpoint.method,
    url: endpoint.path,
    bodyLimit: endpoint.bodyLimit,
    onRequest: door.admit(endpoint),
    onResponse: (request, reply, done) => {
      counter(reply.statusCode)
      deps.metrics.duration.observe({ endpoint: endpoint.id }, reply.elapsedTime / 1000)
      const fields = {
        requestId: request.id,
        endpoint: endpoint.id,
        status: reply.statusCode,
        durationMs: Math.round(reply.elapsedTime),
      }
      request.log.debug(fields, 'request answered')
      done()
    },
    handler: async (request, reply) => {
      const context = door.context(endpoint, request, reply)
      const input = {
        params: parsePart('params', params, request.params),
        query: isDeclared(endpoint.query) ? parsePart('query', endpoint.query, request.query) : undefined,
        body: isDeclared(endpoint.body) ? parsePart('body', endpoint.body, request.body ?? undefined) : undefined,
      }
      await permitByBody(deps, endpoint, context.caller, input)
      if (endpoint.answers !== 'data') return sendRaw(reply, endpoint, await handle(input as never, context)) // as in answering()
      const work = (): Promise<SentAnswer> => answer(input, context)
      const key = request.headers['idempotency-key']
      if (endpoint.method !== 'POST' || typeof key !== 'string') return send(reply, await work())
      if (key.length < 1 || key.length > 255) {
        throw new PanelError('VALIDATION_ERROR', 'Idempotency-Key must have 1 to 255 characters', {
          details: [{ field: 'headers.idempotency-key', message: 'must have 1 to 255 characters' }],
        })
      }
      const scope = `${context.caller?.credentialId ?? context.origin.ip} ${endpoint.method} ${request.url}`
      const refusal = (error: PanelError): SentAnswer => ({
        status: ERRORS[error.code].status,
        payload: JSON.stringify(errorBody(error, request.id)),
      })
      const sent = await deps.idempotency.run({ key, scope, body: JSON.stringify(input.body ?? null), refusal }, work)
      if (sent.replayed) reply.header('idempotency-replayed', 'true')
      return send(reply, sent)
    },
  })
}

async function permitByBody(
  deps: HttpDeps,
  endpoint: Endpoint,
  caller: Caller | undefined,
  input: { params: unknown; body: unknown },
): Promise<void> {
  if (typeof endpoint.access === 'string' || !('serverByBody' in endpoint.access) || caller === undefined) return
  const { serverId } = input.params as { serverId: string } // every serverByBody path has :serverId
  await permitServer(
    { q: deps.db.read, now: now(deps.clock) },
    caller,
    serverId,
    endpoint.access.serverByBody.exact(input.body),
  )
}

async function identify(
  deps: HttpDeps,
  limits: RateLimits,
  endpoint: Endpoint | StreamEndpoint,
  request: FastifyRequest,
): Promise<Known> {
  const isAuth = endpoint.tag === 'Auth' || endpoint.tag === 'Setup'
  const { token, byCookie } = tokenOf(request)
  if (token === undefined || endpoint.access === 'public') {
    await limits.address(request, isAuth && endpoint.access === 'public' ? 'auth' : kindOfPath(endpoint.path))
    return { caller: undefined, byCookie: false }
  }
  const caller = await deps.credentials.resolve(token)
  if (typeof caller === 'string') {
    await limits.address(request, 'auth')
    throw refused(caller)
  }
  if (byCookie && request.method !== 'GET') refuseForeignOrigin(request)
  await limits.caller(request, caller, kindOfPath(endpoint.path))
  return { caller, byCookie }
}

/** The refusal of a credential that is expired, or not (any longer) known. */
export function refused(why: 'unknown' | 'expired'): PanelError {
  const code: ErrorCode = why === 'expired' ? 'AUTH_EXPIRED' : 'UNAUTHENTICATED'
  return new PanelError(
    code,
    why === 'expired' ? 'The sign-in has expired; sign in again' : 'The credential is not valid',
  )
}

function tokenOf(request: FastifyRequest): { token: string | undefined; byCookie: boolean } {
  const header = request.headers.authorization
  if (header !== undefined) return { token: /^Bearer +(\S+)$/i.exec(header)?.[1] ?? '', byCookie: false }
  return { token: request.cookies[SESSION_COOKIE], byCookie: true }
}

/** A browser sends the cookie along from any page; only pages of ours may write with it. */
function refuseForeignOrigin(request: FastifyRequest): void {
  const site = request.headers['sec-fetch-site']
  if (site === 'same-origin' || site === 'none') return
  const { origin } = request.headers
  if (origin !== undefined && URL.canParse(origin) && new URL(origin).host === request.host) return
  throw new PanelError(
    'CSRF_INVALID',
    'Writes with a session cookie must come from the panel itself; scripts use an API key',
  )
}

function makeContext(
  deps: HttpDeps,
  caller: Caller | undefined,
  request: FastifyRequest,
  reply: FastifyReply,
): Context {
  let signal: AbortSignal | undefined
  const origin = {
    ip: request.ip,
    userAgent: request.headers['user-agent']?.slice(0, 500) ?? null,
    requestId: request.id,
  }
  return {
    caller,
    origin,
    actor: { caller, origin },
    log: deps.log,
    get signal() {
      signal ??= requestSignal(reply, deps.stopping)
      return signal
    },
    fail: (code, message, meta) => {
      throw new PanelError(code, message, meta === undefined ? {} : { meta })
    },
    setSession: (token, maxAge) => {
      const options = { path: '/', httpOnly: true, sameSite: 'lax', secure: request.protocol === 'https' } as const
      if (token === null) reply.clearCookie(SESSION_COOKIE, options)
      else reply.setCookie(SESSION_COOKIE, token, { ...options, ...(maxAge === undefined ? {} : { maxAge }) })
    },
  }
}

/** Made when a handler asks for it: most do not, and a combined signal costs as much as a whole small request. */
function requestSignal({ raw }: FastifyReply, stopping: AbortSignal): AbortSignal {
  const gone = new AbortController()
  if (raw.destroyed) gone.abort()
  else raw.once('close', () => gone.abort())
  return AbortSignal.any([gone.signal, stopping])
}

/** An empty body counts as none, whatever its content type says. */
function readEmptyBodies(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeContentTypeParser(['application/json', 'text/plain'])
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body === '') done(null, undefined)
    else parse(request, body.toString(), done)
  })
}
