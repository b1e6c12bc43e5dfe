import type { FastifyInstance, FastifyRequest } from 'fastify'
import { PanelError } from '../../shared/errors.ts'
import type { Caller } from './caller.ts'
import type { Settings } from './settings.ts'

/** What an endpoint counts as beside a request: by its path, so that no group of endpoints can be forgotten. */
export type RequestKind = 'auth' | 'files' | 'transfer' | 'plain'

/** The request limits (decisions #9, #80, #82): of an address without a caller, of a caller, of a key. */
export interface RateLimits {
  /** Counts a request of nobody against its address. */
  address(request: FastifyRequest, kind: RequestKind): Promise<void>
  /** Counts a request of this caller; a key with a limit of its own has that one. */
  caller(request: FastifyRequest, caller: Caller, kind: RequestKind): Promise<void>
}

/** The kind of requests to this path: the files of a server, the agents' bulk transfers, or any other. */
export function kindOfPath(path: string): 'files' | 'transfer' | 'plain' {
  if (/^\/api\/servers\/:serverId\/files(\/|$)/.test(path)) return 'files'
  return /^\/api\/agent\/bulk(\/|$)/.test(path) ? 'transfer' : 'plain'
}

const MINUTE = 60_000

/** Limits over `@fastify/rate-limit`'s counters. Exceeding one throws RATE_LIMITED with `retryAfterSeconds`. */
export function createRateLimits(app: FastifyInstance, settings: Settings): RateLimits {
  const callers = new WeakMap<FastifyRequest, Caller>()
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
  const byCaller = app.createRateLimit({
    max: (request) => callers.get(request)?.rateLimit?.max ?? settings.get('limits.requestsPerMinute'),
    timeWindow: (request) => callers.get(request)?.rateLimit?.windowMs ?? MINUTE,
    keyGenerator: (request) => `caller ${callers.get(request)?.credentialId ?? ''}`,
  })
  return {
    address: async (request, kind) => {
      refuse(await byAddress(request))
      if (kind === 'auth') refuse(await byAuth(request))
      if (kind === 'transfer') refuse(await byTransfer(request))
    },
    caller: async (request, caller, kind) => {
      if (caller.kind === 'apiKey' && caller.rateLimit === null) return
      callers.set(request, caller)
      refuse(await byCaller(request))
      if (kind === 'files') refuse(await byFiles(request))
    },
  }
}

function refuse(
  result: { isAllowed: true } | { isAllowed: false; isExceeded: boolean; ttlInSeconds: number; max: number },
): void {
  if (result.isAllowed || !result.isExceeded) return
  throw new PanelError('RATE_LIMITED', `Too many requests; try again in ${result.ttlInSeconds} s`, {
    meta: { retryAfterSeconds: result.ttlInSeconds, limit: result.max },
  })
}
