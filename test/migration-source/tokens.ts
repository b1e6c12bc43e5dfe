import { createHash, createHmac } from 'node:crypto'
import type { SimServer } from './rows.ts'

/** A token as the source signs them (HS256). */
export function signedToken(key: string, claims: Record<string, unknown>): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const head = `${part({ typ: 'JWT', alg: 'HS256' })}.${part(claims)}`
  return `${head}.${hmac(key, head)}`
}

function hmac(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

/** What a token claims, if this key has signed it and it is not over. */
export function claimsOf(key: string, token: string): Record<string, unknown> | undefined {
  const [head = '', body = '', signature = ''] = token.split('.')
  if (signature === '' || hmac(key, `${head}.${body}`) !== signature) return undefined
  const claims: unknown = JSON.parse(Buffer.from(body, 'base64url').toString())
  if (typeof claims !== 'object' || claims === null) return undefined
  const { exp, nbf } = claims as { exp?: unknown; nbf?: unknown }
  const now = Date.now() / 1000
  if (typeof exp !== 'number' || exp < now || typeof nbf !== 'number' || nbf > now) return undefined
  return claims as Record<string, unknown>
}

/** The claims of a URL for one download. */
export function downloadClaims(more: { server: SimServer; userUuid: string; userId: number; url: string }) {
  const now = Math.floor(Date.now() / 1000)
  const unique = createHash('sha256').update(`${more.server.uuid}${process.hrtime.bigint()}`).digest('hex')
  return {
    iss: more.url,
    aud: [more.url],
    jti: createHash('md5').update(unique).digest('hex'),
    iat: now,
    nbf: now - 300,
    exp: now + 900,
    server_uuid: more.server.uuid,
    user_uuid: more.userUuid,
    user_id: more.userId,
    unique_id: unique.slice(0, 16),
  }
}
