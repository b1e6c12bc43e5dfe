import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Endpoint, StreamEndpoint } from '../../shared/kernel/contract.ts'
import { type ErrorCode, PanelError } from '../../shared/kernel/errors.ts'
import type { Caller, Credentials } from '../access/caller.ts'
import type { RateLimits } from './rate-limits.ts'

/** The name of the session cookie. */
export const SESSION_COOKIE = 'panel_session'

/** Finds who makes a request: the limits of the address, the credential, the limits of the caller, in that order. */
export interface Callers {
  /** The caller of an endpoint; `undefined` for public ones and without a credential. */
  identify(
    endpoint: Endpoint | StreamEndpoint,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<Caller | undefined>
  /** The caller of a public endpoint that is also for people who are signed in; a dead credential counts as none. */
  optional(request: FastifyRequest): Promise<Caller | undefined>
}

/** Callers by these credentials, within these limits. */
export function createCallers(credentials: Credentials, limits: RateLimits): Callers {
  return {
    identify: async (endpoint, request, reply) => {
      // By the path: whether the setup is done is asked again and again until a panel is up.
      const isAuth = endpoint.path.startsWith('/api/auth/')
      const { token, byCookie } = tokenOf(request)
      if (token === undefined || endpoint.access === 'public') {
        await limits.address({ endpoint, request, reply }, isAuth && endpoint.access === 'public')
        return undefined
      }
      const caller = await credentials.resolve(token)
      if (typeof caller === 'string') {
        await limits.address({ endpoint, request, reply }, true)
        throw refused(caller)
      }
      if (byCookie && request.method !== 'GET') refuseForeignOrigin(request)
      await limits.caller({ endpoint, request, reply }, caller)
      return caller
    },
    optional: async (request) => {
      const { token, byCookie } = tokenOf(request)
      if (token === undefined) return undefined
      const caller = await credentials.resolve(token)
      if (typeof caller === 'string') return undefined
      if (byCookie && request.method !== 'GET') refuseForeignOrigin(request)
      return caller
    },
  }
}

/** The refusal of a credential that is expired, or not (any longer) known. */
export function refused(why: 'unknown' | 'expired'): PanelError {
  const code: ErrorCode = why === 'expired' ? 'AUTH_EXPIRED' : 'UNAUTHENTICATED'
  return new PanelError(
    code,
    why === 'expired' ? 'The sign-in has expired; sign in again' : 'The credential is not valid',
  )
}

/** The credential that a request carries: a header wins over the session's cookie. */
export function tokenOf(request: FastifyRequest): { token: string | undefined; byCookie: boolean } {
  const header = request.headers.authorization
  if (header !== undefined) return { token: /^Bearer +(\S+)$/i.exec(header)?.[1] ?? '', byCookie: false }
  return { token: request.cookies[SESSION_COOKIE], byCookie: true }
}

/** A browser sends the cookie along from any page; only pages of ours may write with it. */
function refuseForeignOrigin(request: FastifyRequest): void {
  const site = request.headers['sec-fetch-site']
  if (site === 'same-origin' || site === 'none') return
  // The browser has said where the page is from: an address with the same host may still be another scheme's or port's.
  if (site !== undefined) throw foreign()
  const { origin } = request.headers
  if (origin !== undefined && URL.canParse(origin) && new URL(origin).host === request.host) return
  throw foreign()
}

function foreign(): PanelError {
  return new PanelError(
    'CSRF_INVALID',
    'Writes with a session cookie must come from the panel itself; scripts use an API key',
  )
}
