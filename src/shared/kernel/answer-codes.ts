import { type Endpoint, isDeclared, type StreamEndpoint } from './contract.ts'
import type { ErrorCode } from './errors.ts'

/** Of the pipeline before and around a handler: input, limits, storage, bugs, a daemon that stops. */
const EVERYWHERE = [
  'VALIDATION_ERROR',
  'HOST_NOT_ALLOWED',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
  'INSUFFICIENT_SPACE',
  'DATABASE_UNAVAILABLE',
  'SHUTTING_DOWN',
] as const satisfies readonly ErrorCode[]
const WITH_CALLER = ['UNAUTHENTICATED', 'AUTH_EXPIRED', 'PERMISSION_DENIED'] as const satisfies readonly ErrorCode[]
const OF_AGENTS = ['UNAUTHENTICATED', 'PERMISSION_DENIED', 'NODE_DISABLED'] as const satisfies readonly ErrorCode[]
/** Of a body: too large, or too slow. */
const WITH_BODY = ['PAYLOAD_TOO_LARGE', 'REQUEST_TIMEOUT'] as const satisfies readonly ErrorCode[]
/** Of an Idempotency-Key: used for another request, or its answer was lost. */
const WITH_KEY = ['IDEMPOTENCY_KEY_REUSED', 'CONFLICT'] as const satisfies readonly ErrorCode[]

/** Whether the endpoint keeps its answer under an Idempotency-Key: a POST with a JSON body, or with none. */
export function keepsAnswer(endpoint: Endpoint | StreamEndpoint): boolean {
  if (endpoint.kind === 'stream') return false
  return endpoint.method === 'POST' && endpoint.accepts === 'json' && endpoint.answers === 'data'
}

/**
 * Every code that an endpoint may answer: its own, and what the pipeline may answer in its place. The daemon logs an answer
 * with any other code as an error, and tests fail at it.
 */
export function answerCodes(endpoint: Endpoint | StreamEndpoint): ReadonlySet<ErrorCode> {
  return new Set<ErrorCode>([
    ...endpoint.errors,
    ...EVERYWHERE,
    ...(endpoint.access === 'public' ? [] : endpoint.access === 'agent' ? OF_AGENTS : WITH_CALLER),
    ...(endpoint.kind !== 'stream' && endpoint.method !== 'GET' && endpoint.access !== 'agent'
      ? (['CSRF_INVALID'] as const)
      : []),
    ...(endpoint.kind !== 'stream' && isDeclared(endpoint.body) ? WITH_BODY : []),
    ...(keepsAnswer(endpoint) ? WITH_KEY : []),
  ])
}
