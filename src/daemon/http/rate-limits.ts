import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Endpoint, EndpointLimit, StreamEndpoint } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import { SECURITY_NUMBERS } from '../../shared/kernel/security-numbers.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { countedAddress } from '../../shared/platform/counted-address.ts'
import type { Caller } from '../access/caller.ts'
import type { Metrics } from '../core/metrics.ts'
import type { Settings } from '../core/settings.ts'

/** A request on its way to an endpoint. */
export interface Counted {
  readonly endpoint: Endpoint | StreamEndpoint
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/**
 * The request limits: of an address without a caller, of a key, of a user over all their
 * sessions and keys, of single endpoints. Settings are read at each request. The answer carries RateLimit-Limit, -Remaining
 * and -Reset of the limit that is nearest; exceeding one throws RATE_LIMITED with `retryAfterSeconds`.
 */
export interface RateLimits {
  /** Counts a request of nobody against its address; `auth`: one that gives credentials, or wrong ones. */
  address(counted: Counted, auth: boolean): Promise<void>
  /** Counts a request of this caller; a key has a limit of its own, and one without a limit is counted and never refused. */
  caller(counted: Counted, caller: Caller): Promise<void>
  /** Requests that a key has made in its window that runs now. */
  usedNow(keyId: string): number
}

/** What requests count as beside a request: by the path, so that no group of endpoints can be forgotten. */
function kindOf({ path }: Endpoint | StreamEndpoint): 'files' | 'transfer' | 'plain' {
  if (/^\/api\/servers\/:serverId\/files(\/|$)/.test(path)) return 'files'
  return /^\/api\/agent\/bulk(\/|$)/.test(path) ? 'transfer' : 'plain'
}

const MINUTE = 60_000
/** As many as the counters of the limiter itself. */
const MAX_CACHED = 5000

type Limiter = ReturnType<FastifyInstance['createRateLimit']>
type Count = { readonly max: number; readonly remaining: number; readonly ttlInSeconds: number; readonly ttl: number }

/** Limits over `@fastify/rate-limit`'s counters. */
export function createRateLimits(
  app: FastifyInstance,
  { settings, clock, metrics: { credentialUses } }: { settings: Settings; clock: Clock; metrics: Metrics },
): RateLimits {
  const callers = new WeakMap<FastifyRequest, Caller>()
  const uses = new Map<string, { readonly count: number; readonly until: number }>()
  const byAddress = app.createRateLimit({
    max: () => settings.get('limits.requestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `ip ${countedAddress(request.ip)}`,
  })
  const byAuth = app.createRateLimit({
    max: () => settings.get('limits.authRequestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `auth ${countedAddress(request.ip)}`,
  })
  const byTransfer = app.createRateLimit({
    max: () => settings.get('limits.transferRequestsPerMinute'),
    timeWindow: MINUTE,
    keyGenerator: (request) => `transfer ${countedAddress(request.ip)}`,
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
  const own = new WeakMap<FastifyRequest, EndpointLimit & { readonly id: string }>()
  const byEndpoint = app.createRateLimit({
    max: (request) => {
      const wider = settings.get('limits.authRequestsPerMinute') / SECURITY_NUMBERS.authRateLimitMax.default
      return Math.floor((own.get(request)?.max ?? 1) * Math.max(1, wider))
    },
    timeWindow: (request) => (own.get(request)?.minutes ?? 1) * MINUTE,
    keyGenerator: (request) => {
      const userId = callers.get(request)?.userId
      const who = userId === undefined ? `ip ${countedAddress(request.ip)}` : `user ${userId}`
      return `endpoint ${own.get(request)?.id ?? ''} ${who}`
    },
  })
  const countOwn = async (request: FastifyRequest, endpoint: Endpoint | StreamEndpoint): Promise<Result[]> => {
    if (endpoint.kind === 'stream' || endpoint.limit === null) return []
    own.set(request, { ...endpoint.limit, id: endpoint.id })
    return [await count(byEndpoint, request)]
  }
  const noteUse = (keyId: string, { max, remaining, ttl }: Count): void => {
    uses.delete(keyId)
    uses.set(keyId, { count: max - remaining, until: clock.monotonicMs() + ttl })
    const [oldest] = uses.keys()
    if (uses.size > MAX_CACHED && oldest !== undefined) uses.delete(oldest)
  }
  return {
    address: async ({ endpoint, request, reply }, auth) => {
      const counted = [await count(byAddress, request)]
      if (auth) counted.push(await count(byAuth, request))
      if (kindOf(endpoint) === 'transfer') counted.push(await count(byTransfer, request))
      if (endpoint.access === 'public') counted.push(...(await countOwn(request, endpoint)))
      answerLimits(reply, counted)
    },
    caller: async ({ endpoint, request, reply }, caller) => {
      callers.set(request, caller)
      if (caller.kind === 'apiKey') credentialUses.inc({ kind: caller.rateLimit === null ? 'unlimited_key' : 'key' })
      else credentialUses.inc({ kind: 'session' })
      if (caller.kind === 'apiKey' && caller.rateLimit === null) return
      const counted: Result[] = []
      if (caller.kind === 'apiKey') {
        const own = await count(byKey, request)
        noteUse(caller.credentialId, own)
        counted.push(own)
      }
      // A request that its key refuses is none of the user's.
      if (!counted.some(({ exceeded }) => exceeded)) counted.push(await count(byUser, request))
      if (kindOf(endpoint) === 'files') counted.push(await count(byFiles, request))
      counted.push(...(await countOwn(request, endpoint)))
      answerLimits(reply, counted)
    },
    usedNow: (keyId) => {
      const use = uses.get(keyId)
      return use === undefined || use.until <= clock.monotonicMs() ? 0 : use.count
    },
  }
}

type Result = Count & { readonly exceeded: boolean }

async function count(limiter: Limiter, request: FastifyRequest): Promise<Result> {
  const result = await limiter(request)
  if (result.isAllowed) throw new Error('there is no list of addresses without a limit')
  const { max, remaining, ttl, ttlInSeconds, isExceeded: exceeded } = result
  return { max, remaining, ttl, ttlInSeconds, exceeded }
}

function answerLimits(reply: FastifyReply, counted: readonly Result[]): void {
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
