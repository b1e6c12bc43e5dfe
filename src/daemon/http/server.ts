import { parse } from 'node:querystring'
import { Readable } from 'node:stream'
import cookie from '@fastify/cookie'
import multipart from '@fastify/multipart'
import rateLimit from '@fastify/rate-limit'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  LogController,
  type RouteOptions,
} from 'fastify'
import { z } from 'zod'
import { answerCodes, keepsAnswer } from '../../shared/kernel/answer-codes.ts'
import {
  type ByteStream,
  type Endpoint,
  isDeclared,
  StreamAnswer,
  type StreamEndpoint,
  type Upload,
} from '../../shared/kernel/contract.ts'
import { ERRORS, PanelError } from '../../shared/kernel/errors.ts'
import { percentDecoded } from '../../shared/kernel/path-text.ts'
import { withoutIgnored } from '../../shared/kernel/strict-body.ts'
import { type Clock, now } from '../../shared/kernel/time.ts'
import type { Caller, Credentials } from '../access/caller.ts'
import { permit, permitByBody } from '../access/permit.ts'
import type { Log } from '../core/log.ts'
import type { Metrics } from '../core/metrics.ts'
import type { Settings } from '../core/settings.ts'
import type { ShortReads } from '../core/short-reads.ts'
import type { SystemErrors } from '../core/system-errors.ts'
import type { Db } from '../db/db.ts'
import { AnswerCache, type Reading, rightsKey } from './answer-cache.ts'
import { enveloping, send, sendRaw } from './answers.ts'
import { byteStream } from './byte-stream.ts'
import { createCallers } from './callers.ts'
import { limitConnections } from './connection-limits.ts'
import { closeGently, cutSlowBodies, HEAD_CHECK_MS, HEAD_MS, refuseMalformed } from './connections.ts'
import { createContexts, type SentCookie, sendCookie } from './context.ts'
import { errorBody, parsePart, sendError, toPanelError } from './errors.ts'
import { answerHeaders } from './headers.ts'
import { createHostCheck } from './hosts.ts'
import type { Idempotency, SentAnswer } from './idempotency.ts'
import { readJsonBodies } from './json-bodies.ts'
import { type Counted, createRateLimits, type RateLimits } from './rate-limits.ts'
import { ReadingPace } from './reading-pace.ts'
import { requestIds } from './request-ids.ts'
import type { CachedContext, CachedRoute, Context, PlainRoute, Route } from './route.ts'
import { isKnownTo, sendStream } from './stream-answer.ts'
import { createTransferRights } from './transfer-rights.ts'
import { endUnusedConnections } from './unused-connections.ts'
import { withUpload } from './upload.ts'

/** What the HTTP server is made of. */
export interface HttpDeps {
  readonly db: Db
  readonly credentials: Credentials
  /** The node whose agent makes a request, by its headers; throws the refusal. */
  readonly identifyNode: (request: FastifyRequest) => Promise<string>
  readonly idempotency: Idempotency
  /** Where requests count that are answered from the cache, or from what it is filled from. */
  readonly reads: ShortReads
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
  /** Names that the panel answers by, beside addresses, `localhost` and those of its certificate. */
  readonly allowedHosts: readonly string[]
  /** Connections over TCP at the same time. */
  readonly maxConnections: number
  /** How many bytes of answers are cached ({@link CACHE_BYTES}); 0: none. */
  readonly cacheBytes?: number
}

/** As much as some hundred lists, or some thousand single servers. */
const CACHE_BYTES = 16 * 1024 * 1024

/** TLS 1.2 with forward secrecy and authenticated encryption, or 1.3. */
const TLS = {
  minVersion: 'TLSv1.2',
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
  ].join(':'),
  handshakeTimeout: HEAD_MS,
} as const

/** The parts that JSON routes and streams share. */
export interface HttpServer {
  readonly app: FastifyInstance
  readonly deps: HttpDeps
  /** Address limit, caller, key limit, in that order. */
  identify(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply): Promise<Caller | undefined>
  readonly answers: AnswerCache
  readonly pace: ReadingPace
  /** The same, and the permission: before the body. */
  admit(endpoint: Endpoint | StreamEndpoint): (request: FastifyRequest, reply: FastifyReply) => Promise<void>
  context(endpoint: Endpoint | StreamEndpoint, request: FastifyRequest, reply: FastifyReply): Context
  /** The cookies that the handler of this request has set so far. */
  cookiesOf(request: FastifyRequest): readonly SentCookie[]
  readonly limits: RateLimits
  /** Has a request that sends or takes bytes ended when its caller loses the right to it. */
  watch(endpoint: Endpoint, request: FastifyRequest, reply: FastifyReply): void
}

/** The HTTP server, with error handling and request ids, without any route. */
export async function createHttpServer(deps: HttpDeps): Promise<HttpServer> {
  const logger: FastifyBaseLogger = deps.log.child({ component: 'http' })
  const options = {
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    trustProxy: deps.trustedProxies.length > 0 ? [...deps.trustedProxies] : false,
    // A logger of each request's own costs more than most requests; its id is a field of what is logged.
    childLoggerFactory: (parent: FastifyBaseLogger) => parent,
    genReqId: requestIds(deps.clock),
    forceCloseConnections: 'idle',
    // The contract validates input and answers; Fastify's own compilers are a fifth of what a start would load.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    routerOptions: { maxParamLength: 200, querystringParser: queryOf },
    // A URL that cannot be decoded is refused before any route or hook, so the header is set here.
    frameworkErrors: (error: Error, request: FastifyRequest, reply: FastifyReply) =>
      sendError(
        reply.headers(answerHeaders(request)).header('x-request-id', request.id),
        toPanelError(error),
        request.id,
      ),
    clientErrorHandler: refuseMalformed,
    exposeHeadRoutes: false, // answerHeads
  } as const satisfies FastifyServerOptions
  const heads = { headersTimeout: HEAD_MS, connectionsCheckingInterval: HEAD_CHECK_MS }
  const app: FastifyInstance =
    deps.tls === undefined
      ? Fastify({ ...options, http: heads })
      : Fastify({ ...options, https: { ...heads, ...TLS, ...deps.tls } })
  limitConnections(app.server, {
    most: deps.maxConnections,
    perAddress: deps.trustedProxies.length === 0,
    clock: deps.clock,
    log: deps.log,
  })
  cutSlowBodies(app.server, deps.clock, deps.stopping)
  closeGently(app.server, deps.stopping)
  endUnusedConnections(app, deps.tls === undefined ? 'connection' : 'secureConnection')
  await app.register(cookie)
  await app.register(rateLimit, { global: false })
  const limits = createRateLimits(app, deps)
  const callers = createCallers(deps.credentials, limits)
  const rights = createTransferRights(deps)
  const contexts = createContexts({ ...deps, callers, rights })
  const known = new WeakMap<FastifyRequest, Caller | undefined>()
  const nodes = new WeakMap<FastifyRequest, string>()
  readJsonBodies(app)
  answerHeads(app)
  app.addHook('onSend', (request, reply, payload, done) => {
    reply.headers(answerHeaders(request)).header('x-request-id', request.id)
    if (request.method === 'HEAD') done(null, withoutBody(reply, payload))
    else done()
  })
  const checkHost = createHostCheck({ names: deps.allowedHosts, certificate: deps.tls?.cert })
  app.addHook('onRequest', (request, _, done) => {
    // Both: a page that has come here by a name of its own can send the header of a proxy, too.
    checkHost(request.headers.host ?? '')
    checkHost(request.host)
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
    noteUndeclared(request, failure)
    if (failure.code === 'INTERNAL_ERROR') {
      const { id: requestId, method, routeOptions } = request
      request.log.error({ err: failure.cause ?? failure, requestId }, 'request failed')
      const userId = known.get(request)?.userId
      const metadata = { method, path: routeOptions.url }
      deps.systemErrors?.capture(failure.cause ?? failure, { component: 'http', requestId, userId, metadata })
    }
    return sendError(reply, failure, request.id)
  })
  const identify = async (
    endpoint: Endpoint | StreamEndpoint,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<Caller | undefined> => {
    const caller = await callers.identify(endpoint, request, reply)
    known.set(request, caller)
    return caller
  }
  const refuseWhenStopping = (): void => {
    if (deps.stopping.aborted) throw new PanelError('SHUTTING_DOWN', 'The daemon is stopping; try again in a moment')
  }
  return {
    app,
    deps,
    limits,
    pace: new ReadingPace(deps.reads),
    answers: new AnswerCache({ db: deps.db, clock: deps.clock, most: deps.cacheBytes ?? CACHE_BYTES }),
    identify: (...of) => {
      refuseWhenStopping()
      return identify(...of)
    },
    admit: (endpoint) => async (request, reply) => {
      refuseWhenStopping()
      if (endpoint.access === 'agent') {
        nodes.set(request, await identifyNode(deps, limits, { endpoint, request, reply }))
        return
      }
      const caller = await identify(endpoint, request, reply)
      const params = request.params as Record<string, string> // find-my-way gives exactly this
      await permit({ q: deps.db.read, now: now(deps.clock) }, endpoint.access, caller, params)
    },
    context: (_, request, reply) => contexts.of(known.get(request), request, reply, nodes.get(request)),
    cookiesOf: (request) => contexts.cookiesOf(request),
    watch: ({ access }, request, reply) => {
      const caller = known.get(request)
      if (caller !== undefined) rights.watch(access, caller, { request, reply })
    },
  }
}

/** Adds a JSON route; everything around its handler is decided by its contract. */
export function addRoute(http: HttpServer, route: Route): void {
  const { app, deps } = http
  const { endpoint } = route
  const counter = (status: number): void => deps.metrics.requests.inc({ endpoint: endpoint.id, status: String(status) })
  const definition: RouteOptions = {
    method: endpoint.method,
    url: endpoint.path,
    bodyLimit: endpoint.bodyLimit,
    config: { endpoint },
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
      if (endpoint.cached) http.pace.answered(request.socket)
      done()
    },
    ...('handleCached' in route ? { handler: cached(http, route) } : plain(http, route)),
  }
  if (endpoint.accepts === 'json') app.route(definition)
  // In a context of its own, so that no other route takes forms, or bodies as they stand.
  else
    app.register(async (child) => {
      if (endpoint.accepts === 'multipart') await child.register(multipart)
      else child.removeAllContentTypeParsers()
      child.addContentTypeParser('*', (_request, _payload, done) => done(null))
      child.route(definition)
    })
}

/** A request passes the limits and the permission before its body is read. */
function plain(http: HttpServer, route: PlainRoute): Pick<RouteOptions, 'onRequest' | 'handler'> {
  const { endpoint } = route
  if (endpoint.cached) throw new Error(`the answers of ${endpoint.id} are cached: bind it by cachedRoute`)
  const served: Served = { ...route, params: z.object(endpoint.params), envelope: enveloping(endpoint) }
  return {
    onRequest: http.admit(endpoint),
    handler: (request, reply) => {
      if (endpoint.accepts !== 'json' || endpoint.answers === 'stream') http.watch(endpoint, request, reply)
      if (endpoint.accepts === 'json') return serve(http, served, { request, reply, body: request.body ?? undefined })
      if (endpoint.accepts === 'stream' || !takesForms(request)) {
        return serve(http, served, {
          request,
          reply,
          body: uploadOf(endpoint, byteStream(request, endpoint.bodyLimit)),
        })
      }
      return withUpload(request, endpoint.bodyLimit, (body) => serve(http, served, { request, reply, body }))
    },
  }
}

/** The limits count every request; permission, input and answer are as known as the answer is. */
function cached(http: HttpServer, { endpoint, handleCached }: CachedRoute): RouteOptions['handler'] {
  if (!endpoint.cached) throw new Error(`the contract of ${endpoint.id} does not say that its answers are cached`)
  const params = z.object(endpoint.params)
  const envelope = enveloping(endpoint)
  const kind = endpoint.paged ? 'page' : 'single'
  const fail: CachedContext['fail'] = (code, message, meta) => {
    throw new PanelError(code, message, meta === undefined ? {} : { meta })
  }
  const serveCached = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const caller = await http.identify(endpoint, request, reply)
    const key = `${rightsKey(caller)} ${request.url}`
    const make = async (reading: Reading): Promise<Buffer> => {
      await permit(reading.at, endpoint.access, caller, request.params as Record<string, string>) // as in admit
      const input = {
        params: parsePart('params', params, request.params),
        query: isDeclared(endpoint.query) ? parsePart('query', endpoint.query, request.query) : undefined,
        body: undefined,
      }
      const { at, live } = reading
      return envelope(await handleCached(input as never, { at, live, holder: caller, fail }), input) // as in serve
    }
    const answer = (await http.answers.find(key)) ?? (await http.answers.make(key, make, kind))
    reply.header('etag', `"${answer.etag}"`)
    if (isKnownTo(request, answer.etag)) return reply.status(304).send()
    return send(reply, { status: endpoint.status, payload: answer.payload })
  }
  return (request, reply) => http.deps.reads.run(() => serveCached(request, reply))
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the route answers; a route outside the contract has none. */
    readonly endpoint?: Endpoint | StreamEndpoint
  }
}

/** The document lists which codes an endpoint answers: any other one is a bug, of the contract or of the handler. */
function noteUndeclared(request: FastifyRequest, { code }: PanelError): void {
  const { endpoint } = request.routeOptions.config
  if (endpoint === undefined || answerCodes(endpoint).has(code)) return
  request.log.error(
    { endpoint: endpoint.id, code, requestId: request.id },
    'endpoint answered an undeclared error code',
  )
}

/** A route with what is made of it once. */
interface Served extends PlainRoute {
  readonly params: z.ZodType
  readonly envelope: ReturnType<typeof enveloping>
}

/** A request at its route, its body read. */
interface Asked {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  readonly body: unknown
}

async function serve(http: HttpServer, served: Served, asked: Asked): Promise<FastifyReply> {
  const { deps } = http
  const { request, reply } = asked
  const { endpoint, handle } = served
  const context = http.context(endpoint, request, reply)
  const body = served.convert === undefined ? asked.body : served.convert(asked.body)
  const input = {
    params: parsePart('params', served.params, request.params),
    query: isDeclared(endpoint.query) ? parsePart('query', endpoint.query, request.query) : undefined,
    body: isDeclared(endpoint.body)
      ? parsePart('body', endpoint.body, withoutIgnored(body, endpoint.ignores))
      : undefined,
  }
  await permitByBody({ q: deps.db.read, now: now(deps.clock) }, endpoint.access, context.caller, input)
  if (endpoint.answers === 'stream') {
    return sendStream(request, reply, StreamAnswer.parse(await handle(input as never, context))) // as below
  }
  if (endpoint.answers !== 'data') return sendRaw(reply, endpoint, await handle(input as never, context)) // as below
  const work = async (): Promise<SentAnswer> => {
    const payload = served.envelope(await handle(input as never, context), input) // parsed by this very endpoint's schemas
    return { status: endpoint.status, payload, cookies: http.cookiesOf(request) }
  }
  const key = request.headers['idempotency-key']
  if (!keepsAnswer(endpoint) || typeof key !== 'string') return send(reply, await work())
  if (key.length < 1 || key.length > 255) {
    throw new PanelError('VALIDATION_ERROR', 'Idempotency-Key must have 1 to 255 characters', {
      details: [{ field: 'headers.idempotency-key', message: 'must have 1 to 255 characters' }],
    })
  }
  const scope = `${context.caller?.credentialId ?? context.origin.ip} ${endpoint.method} ${request.url}`
  const refusal = (error: PanelError): SentAnswer => {
    noteUndeclared(request, error)
    const payload = JSON.stringify(errorBody(error, request.id))
    return { status: ERRORS[error.code].status, payload, cookies: http.cookiesOf(request) }
  }
  const sent = await deps.idempotency.run({ key, scope, body: JSON.stringify(input.body ?? null), refusal }, work)
  if (sent.replayed) {
    reply.header('idempotency-replayed', 'true')
    for (const cookie of sent.cookies) sendCookie(request, reply, cookie)
  }
  return send(reply, sent)
}

/** Forms, and JSON which is refused with them; anything else is the file itself. */
function takesForms(request: FastifyRequest): boolean {
  return request.isMultipart() || request.body !== undefined || request.headers['content-type'] === undefined
}

function uploadOf({ accepts }: Endpoint, body: ByteStream): ByteStream | Upload {
  return accepts === 'stream' ? body : { ...body, fileName: '' }
}

/** Nobody but agents of nodes: neither people nor pages in browsers. Wrong keys count against their address. */
async function identifyNode(deps: HttpDeps, limits: RateLimits, counted: Counted): Promise<string> {
  const { request } = counted
  if (request.headers.origin !== undefined) {
    throw new PanelError('PERMISSION_DENIED', 'This route is for node agents and not for browsers')
  }
  try {
    return await deps.identifyNode(request)
  } catch (error) {
    await limits.address(counted, true)
    throw error
  }
}

/** What answers GET answers HEAD too, unless it says that it does not. Fastify's own way adds each such route a second time, which is a twentieth of a start. */
function answerHeads(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (route.method === 'GET' && route.exposeHeadRoute !== false) route.method = ['GET', 'HEAD']
  })
}

/** The head says how long the body would be; a stream that nobody gets is read to its end, so that what feeds it ends as well. */
function withoutBody(reply: FastifyReply, payload: unknown): null {
  if (payload instanceof Readable) {
    payload.on('error', (err) => reply.log.error({ err }, 'cannot read what a HEAD request leaves out'))
    payload.resume()
  } else if (typeof payload === 'string' || payload instanceof Uint8Array) {
    reply.header('content-length', Buffer.byteLength(payload))
  } else {
    reply.header('content-length', 0)
  }
  return null
}

/** Names of files may be other bytes than UTF-8, which the text of a parameter keeps (`kernel/path-text.ts`). */
function queryOf(text: string): ReturnType<typeof parse> {
  return parse(text, '&', '=', { decodeURIComponent: percentDecoded })
}

/** No route has a schema of Fastify's, so nobody asks for one. */
function noSchemas(): never {
  throw new Error('routes are validated by the contract and have no schemas')
}
