import type { FastifyReply, FastifyRequest } from 'fastify'
import { PanelError } from '../../shared/kernel/errors.ts'
import { withoutPort } from '../../shared/platform/counted-address.ts'
import type { Caller, Origin } from '../access/caller.ts'
import type { Principal } from '../access/operation.ts'
import type { Log } from '../core/log.ts'
import { type Callers, SESSION_COOKIE } from './callers.ts'
import type { Context } from './route.ts'
import { writeConditions } from './stream-answer.ts'
import type { TransferRights } from './transfer-rights.ts'

/** A cookie that an answer sets; `value` null removes it, `maxAge` (seconds) null keeps it until the browser closes. */
export interface SentCookie {
  readonly name: string
  readonly value: string | null
  readonly maxAge: number | null
}

/** Makes the contexts of requests, and knows which cookies their handlers have set. */
export interface Contexts {
  of(caller: Caller | undefined, request: FastifyRequest, reply: FastifyReply, nodeId?: string): Context
  cookiesOf(request: FastifyRequest): readonly SentCookie[]
}

/** What contexts need of the rest of the daemon. */
interface ContextDeps {
  readonly log: Log
  readonly stopping: AbortSignal
  readonly callers: Callers
  readonly rights: Pick<TransferRights, 'also'>
}

/** Contexts whose signals abort when the client goes away or the daemon stops. */
export function createContexts(deps: ContextDeps): Contexts {
  const sent = new WeakMap<FastifyRequest, SentCookie[]>()
  const send = (request: FastifyRequest, reply: FastifyReply, cookie: SentCookie): void => {
    const all = sent.get(request)
    if (all === undefined) sent.set(request, [cookie])
    else all.push(cookie)
    sendCookie(request, reply, cookie)
  }
  return {
    cookiesOf: (request) => sent.get(request) ?? [],
    of: (caller, request, reply, nodeId) => new RequestContext(deps, { send, caller, nodeId, request, reply }),
  }
}

/** A request with what its context is made of. */
interface ContextParts {
  readonly caller: Caller | undefined
  readonly nodeId: string | undefined
  readonly request: FastifyRequest
  readonly reply: FastifyReply
  send(request: FastifyRequest, reply: FastifyReply, cookie: SentCookie): void
}

/** Functions are the object's own, since handlers take them out of it. */
class RequestContext implements Context {
  readonly caller: Caller | undefined
  readonly nodeId: string | undefined
  readonly origin: Origin
  readonly principal: Principal
  readonly log: Log
  readonly #deps: ContextDeps
  readonly #parts: ContextParts
  #signal: AbortSignal | undefined

  constructor(deps: ContextDeps, parts: ContextParts) {
    const { caller, nodeId, request } = parts
    this.caller = caller
    this.nodeId = nodeId
    this.origin = {
      ip: withoutPort(request.ip),
      userAgent: request.headers['user-agent']?.slice(0, 500) ?? null,
      requestId: request.id,
    }
    this.principal = { kind: 'caller', caller, origin: this.origin }
    this.log = deps.log
    this.#deps = deps
    this.#parts = parts
  }

  /** Of the class: V8 makes a shape of its own for each object that has an accessor, which keeps the whole request until all of the heap is collected. */
  get signal(): AbortSignal {
    this.#signal ??= requestSignal(this.#parts.reply, this.#deps.stopping)
    return this.#signal
  }

  readonly writes = (): ReturnType<Context['writes']> => writeConditions(this.#parts.request)
  readonly keepWhile: Context['keepWhile'] = (look) => this.#deps.rights.also(this.#parts.request, look)
  readonly fail: Context['fail'] = (code, message, meta) => {
    throw new PanelError(code, message, meta === undefined ? {} : { meta })
  }
  readonly identify = async (): Promise<Caller | undefined> =>
    this.caller ?? this.#deps.callers.optional(this.#parts.request)
  readonly cookie = (name: string): string | undefined => this.#parts.request.cookies[name]
  readonly setCookie: Context['setCookie'] = (name, value, maxAge) => {
    const { request, reply, send } = this.#parts
    send(request, reply, { name, value, maxAge: maxAge ?? null })
  }
  readonly setSession: Context['setSession'] = (token, maxAge) => this.setCookie(SESSION_COOKIE, token, maxAge)
}

/** Sets or removes a cookie that only the panel's own pages send back, and no script reads. */
export function sendCookie(request: FastifyRequest, reply: FastifyReply, { name, value, maxAge }: SentCookie): void {
  const options = { path: '/', httpOnly: true, sameSite: 'lax', secure: request.protocol === 'https' } as const
  if (value === null) return void reply.clearCookie(name, options)
  // The same for clients that keep no cookies.
  if (name === SESSION_COOKIE) reply.header('set-auth-token', value)
  reply.setCookie(name, value, { ...options, ...(maxAge === null ? {} : { maxAge }) })
}

/** Made when a handler asks for it: most do not, and a combined signal costs as much as a whole small request. */
function requestSignal({ raw }: FastifyReply, stopping: AbortSignal): AbortSignal {
  const gone = new AbortController()
  if (raw.destroyed) gone.abort()
  else raw.once('close', () => gone.abort())
  return AbortSignal.any([gone.signal, stopping])
}
