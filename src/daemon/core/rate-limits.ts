import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { PanelError } from '../../shared/errors.ts'
import type { Clock } from '../../shared/time.ts'
import type { Caller } from './caller.ts'
import type { Settings } from './settings.ts'

/** What an endpoint counts as beside a request: by its path, so that no group of endpoints can be forgotten. */
export type RequestKind = 'auth' | 'files' | 'transfer' | 'plain'

/**
 * The request limits (decisions #9, #80, #82): of an address without a caller, of a key, of a user over all his sessions
 * and keys. Settings are read at each request. The answer carries RateLimit-Limit, -Remaining and -Reset of the limit
 * that is nearest; exceeding one throws RATE_LIMITED with `retryAfterSeconds`.
 */
export interface RateLimits {
  /** Counts a request of nobody against its address. */
  address(request: FastifyRequest, reply: FastifyReply, kind: RequestKind): Promise<void>
  /** Counts a request of this caller; a key has a limit of its own, and one without a limit is not counted at all. */
  caller(request: FastifyRequest, reply: FastifyReply, by: { caller: Caller; kind: RequestKind }): Promise<void>
  /** Requests that a key has made in its window that runs now. */
  usedNow(keyId: string): number
}

/** The kind of requests to this path: the files of a server, the agents' bulk transfers, or any other. */
export function kindOfPath(path: string): 'files' | 'transfer' | 'plain' {
  if (/^\/api\/servers\/:serverId\/files(\/|$)/.test(path)) return 'files'
  return /^\/api\/agent\/bulk(\/|$)/.test(path) ? 'transfer' : 'plain'
}

const MINUTE = 60_000
/** As many as the counters of the limiter itself. */
const REMEMBERED = 5000

type Limiter = ReturnType<FastifyInstance['createRateLimit']>
type Counted = { readonly max: number; readonly remaining: number; readonly ttlInSeconds: number; readonly ttl: number }

/** Limits over `@fastify/rate-limit`'s counters. */
export function createRateLimits(app: FastifyInstance, settings: Settings, clock: Clock): RateLimits {
  const callers = new WeakMap<FastifyRequest, Caller>()
  const uses = new Map<string, { readonly count: number; readonly until: number }>()
  const byAddress = app.createRateLimit({
    max: () => settings.get('limits.requestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `ip ${request.ip}`,
  })
  const byAuth = app.createRateLimit({
    max: () => settings.get('limits.authRequestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `auth ${request.ip}`,
  })
  const byTransfer = app.createRateLimit({
    max: () => settings.get('limits.transferRequestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `transfer ${request.ip}`,
  })
  const byFiles = app.createRateLimit({
    max: () => settings.get('limits.fileRequestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `files ${callers.get(request)?.credentialId ?? ''}`,
  })
  const byUser = app.createRateLimit({
    max: () => settings.get('limits.requestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `user ${callers.get(request)?.userId ?? ''}`,
  })
  const byKey = app.createRateLimit({
    max: (request) => callers.get(request)?.rateLimit?.max ?? 1,
    timeWindow: (request) => callers.get(request)?.rateLimit?.windowMs ?? MINUTE,
    keyGenerator: (request) => `key ${callers.get(request)?.credentialId ?? ''}`,
  })
  const remember = (keyId: string, { max, remaining, ttl }: Counted): void => {
    uses.delete(keyId)
    uses.set(keyId, { count: max - remaining, until: clock.monotonicMs() + ttl })
    const [oldest] = uses.keys()
    if (uses.size > REMEMBERED && oldest !== undefined) uses.delete(oldest)
  }
  return {
    address: async (request, reply, kind) => {
      const counted = [await count(byAddress, request)]
      if (kind === 'auth') counted.push(await count(byAuth, request))
      if (kind === 'transfer') counted.push(await count(byTransfer, request))
      tell(reply, counted)
    },
    caller: async (request, reply, { caller, kind }) => {
      if (caller.kind === 'apiKey' && caller.rateLimit === null) return
      callers.set(request, caller)
      const counted: Result[] = []
      if (caller.kind === 'apiKey') {
        const own = await count(byKey, request)
        remember(caller.credentialId, own)
        counted.push(own)
      }
      // A request that its key refuses is none of the user's.
      if (!counted.some(({ exceeded }) => exceeded)) counted.push(await count(byUser, request))
      if (kind === 'files') counted.push(await count(byFiles, request))
      tell(reply, counted)
    },
    usedNow: (keyId) => {
      const use = uses.get(keyId)
      return use === undefined || use.until <= clock.monotonicMs() ? 0 : use.count
    },
  }
}

type Result = Counted & { readonly exceeded: boolean }

async function count(limiter: Limiter, request: FastifyRequest): Promise<Result> {
  const result = await limiter(request)
  if (result.isAllowed) throw new Error('there is no list of addresses without a limit')
  const { max, remaining, ttl, ttlInSeconds, isExceeded: exceeded } = result
  return { max, remaining, ttl, ttlInSeconds, exceeded }
}

function tell(reply: FastifyReply, counted: readonly Result[]): void {
  const [nearest] = [...counted].sort((a, b) => Number(b.exceeded) - Number(a.exceeded) || a.remaining - b.remaining)
  if (nearest === undefined) return
  reply
    .header('ratelimit-limit', String(nearest.max))
    .header('ratelimit-remaining', String(nearest.remaining))
    .header('ratelimit-reset', String(nearest.ttlInSeconds))
  if (!nearest.exceeded) return
  throw new PanelError('RATE_LIMITED', `Too many requests; try again in ${nearest.ttlInSeconds} s`, {
    meta: { retryAfterSeconds: nearest.ttlInSeconds, limit: nearest.max },
  })
}
