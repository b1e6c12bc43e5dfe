/** Why a connection failed, for programs. */
export type ConnectionReason = 'dns' | 'refused' | 'unreachable' | 'timeout' | 'tls' | 'connection'

/** Codes of Node and undici that mean the connection, not the request. */
const REASONS: readonly (readonly [ConnectionReason, RegExp])[] = [
  ['dns', /^(ENOTFOUND|EAI_\w+)$/],
  ['refused', /^ECONNREFUSED$/],
  ['unreachable', /^(EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/],
  ['timeout', /^(ETIMEDOUT|UND_ERR_\w*TIMEOUT)$/],
  ['tls', /^(?:ERR_O?SSL|ERR_TLS|EPROTO$|UNABLE_TO_)|CERT/],
]

/** Why a request had no answer, with one line for people: of an error, its causes, and the several addresses that all failed. */
export function connectionCause(error: unknown): { readonly reason: ConnectionReason; readonly message: string } {
  const parts: unknown[] = []
  for (let part = error; part instanceof Error && parts.length < 5; part = part.cause) {
    parts.push(part, ...(part instanceof AggregateError ? part.errors.slice(0, 5) : []))
  }
  const codes = parts.flatMap((part) => {
    const code: unknown = part instanceof Error ? Reflect.get(part, 'code') : undefined
    return typeof code === 'string' ? [code] : []
  })
  const first = parts.find((part) => part instanceof Error && part.message !== '')
  const message = first instanceof Error ? first.message : (codes[0] ?? 'no reason')
  const reason = REASONS.find(([, pattern]) => codes.some((code) => pattern.test(code)))?.[0] ?? 'connection'
  return { reason, message: message.replace(/\s+/g, ' ').trim().slice(0, 300) }
}
