import type { FastifyRequest } from 'fastify'

/** On every answer: nothing of the API is a page, belongs into a frame, is to be guessed at or kept by anybody. */
export const ANSWER_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** A year. */
const HSTS = { 'strict-transport-security': 'max-age=31536000' }
const SECURE_HEADERS: Readonly<Record<string, string>> = { ...ANSWER_HEADERS, ...HSTS }

/** The headers of an answer to this request: over TLS browsers are asked not to come back without it. */
export function answerHeaders(request: FastifyRequest): Readonly<Record<string, string>> {
  // Other programs of a developer's machine share the name localhost.
  return request.protocol === 'https' && request.hostname !== 'localhost' ? SECURE_HEADERS : ANSWER_HEADERS
}
