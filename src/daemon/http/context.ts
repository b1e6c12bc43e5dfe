import type { FastifyReply, FastifyRequest } from 'fastify'
import { PanelError } from '../../shared/kernel/errors.ts'
import { withoutPort } from '../../shared/platform/counted-address.ts'
import type { Caller } from '../access/caller.ts'
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

/** Contexts whose signals abort when the client goes away or the daemon stops. */
export function createContexts(deps: {
  readonly log: Log
  readonly stopping: AbortSignal
  readonly callers: Callers
  readonly rights: Pick<TransferRights, 'also'>
}): Contexts {
  const sent = new WeakMap<FastifyRequest, SentCookie[]>()
  return {
    cookiesOf: (request) => sent.get(request) ?? [],
    of: (caller, request, reply, nodeId) => {
      let signal: AbortSignal | undefined
      const origin = {
        ip: withoutPort(request.ip),
        userAgent: request.headers['user-agent']?.slice(0, 500) ?? null,
        requestId: request.id,
      }
      const setCookie = (name: string, value: string | null, maxAge?: number): void => {
        const cookie = { name, value, maxAge: maxAge ?? null }
        const all = sent.get(request)
        if (all === undefined) sent.set(request, [cookie])
        else all.push(cookie)
        sendCookie(request, reply, cookie)
      }
      return {
        caller,
        nodeId,
        writes: () => writeConditions(request),
        origin,
        principal: { kind: 'caller', caller, origin },
        log: deps.log,
        keepWhile: (look) => deps.rights.also(request, look),
        get signal() {
          signal ??= requestSignal(reply, deps.stopping)
          return signal
        },
        fail: (code, message, meta) => {
          throw new PanelError(code, message, meta === undefined ? {} : { meta })
        },
        identify: async () => caller ?? deps.callers.optional(request),
        cookie: (name) => request.cookies[name],
        setCookie,
        setSession: (token, maxAge) => setCookie(SESSION_COOKIE, token, maxAge),
      }
    },
  }
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
