import type { DatabaseEngine, DatabaseHostProblem } from '../../../../shared/api/database-hosts.ts'

/** What a sentence about a host names. */
export interface HostPlace {
  readonly engine: DatabaseEngine
  readonly host: string
  readonly port: number
  readonly username: string
}

/** A host could not be used. The message is a sentence part that says what to do; it holds neither statements nor secrets. */
export class HostFailure extends Error {
  override readonly name = 'HostFailure'
  readonly reason: DatabaseHostProblem
  /** The host has certainly not done what it was asked last. */
  readonly undone: boolean

  /** The codes by which driver and host report it. */
  readonly codes: readonly string[]

  constructor(reason: DatabaseHostProblem, message: string, is: { undone: boolean; codes?: readonly string[] }) {
    super(message)
    this.reason = reason
    this.undone = is.undone
    this.codes = is.codes ?? []
  }

  /** The same with these texts left out of the message. */
  without(texts: readonly string[]): HostFailure {
    const message = texts.reduce((text, secret) => text.replaceAll(secret, '…'), this.message)
    return new HostFailure(this.reason, message, this)
  }
}

/** What a driver has thrown, as the failure of this host; `asked`: a statement was on its way. */
export function hostFailure(error: unknown, place: HostPlace, asked: boolean): HostFailure {
  if (error instanceof HostFailure) return error
  const { codes, message } = read(error)
  const reason = reasonOf(codes, message)
  const answered = reason === 'denied' || reason === 'exists' || reason === 'rejected'
  return new HostFailure(reason, explain(reason, message, place), { undone: answered || !asked, codes })
}

/** By codes of Node, then error numbers of MySQL and classes of SQLSTATE. */
const REASONS: readonly (readonly [DatabaseHostProblem, RegExp])[] = [
  ['dns', /^(ENOTFOUND|EAI_\w+)$/],
  ['refused', /^ECONNREFUSED$/],
  ['unreachable', /^(EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN|EADDRNOTAVAIL)$/],
  ['timeout', /^(ETIMEDOUT|PROTOCOL_SEQUENCE_TIMEOUT|57014)$/],
  ['tls', /^(?:HANDSHAKE_NO_SSL_SUPPORT$|HANDSHAKE_SSL_ERROR$|ERR_O?SSL|ERR_TLS|EPROTO$|UNABLE_TO_)|CERT/],
  ['denied', /^(1044|1045|1129|1130|1142|1227|1251|1410|1698|3159|28\w{3}|42501|AUTH_SWITCH_PLUGIN_ERROR)$/],
  ['exists', /^(1007|42P04)$/],
  // The host ends by itself or has broken: whether the last statement was carried out, nobody has said.
  ['connection', /^(1053|1077|1079|1927|57P\w\w|08\w{3}|58\w{3}|XX\w{3})$/],
  ['rejected', /^(\d{4}|[0-9A-Z]{5})$/],
]

function reasonOf(codes: readonly string[], message: string): DatabaseHostProblem {
  for (const [reason, pattern] of REASONS) if (codes.some((code) => pattern.test(code))) return reason
  if (/does not support (SSL|secure)|SSL connection|certificate|altnames|wrong version number/i.test(message))
    return 'tls'
  if (/timeout|timed out/i.test(message)) return 'timeout'
  return 'connection'
}

function explain(reason: DatabaseHostProblem, message: string, { engine, host, port, username }: HostPlace): string {
  switch (reason) {
    case 'dns':
      return `the name ${host} is not known; check the host`
    case 'refused':
      return `nothing listens on ${host} port ${port}; check host and port`
    case 'unreachable':
      return `there is no way to ${host}; check the address and the network`
    case 'timeout':
      return `${host} port ${port} does not answer in time; check the firewall, and that it is ${NAMES[engine]}`
    case 'tls':
      return tlsAdvice(message, host)
    case 'denied':
      return `${host} denies it to ${username}; check user name, password and rights: ${message}`
    case 'exists':
      return `${host} has a database of this name already`
    case 'rejected':
      return `${host} has refused it: ${message}`
    default:
      return `the connection to ${host} port ${port} has failed: ${message}`
  }
}

const NAMES: Readonly<Record<DatabaseEngine, string>> = { mysql: 'MySQL or MariaDB', postgresql: 'PostgreSQL' }

function tlsAdvice(message: string, host: string): string {
  if (/does not support/i.test(message)) {
    return `${host} offers no TLS; turn it on there, or set tls to off where the network between can be trusted`
  }
  if (/self.signed|unable to (verify|get)/i.test(message)) {
    return `the certificate of ${host} is signed by nobody who is trusted; give its authority as caCertificate`
  }
  if (/altnames|does not match/i.test(message)) {
    return `the certificate is not for ${host}; use the name that it is made for`
  }
  if (/expired/i.test(message)) return `the certificate of ${host} has expired`
  return `TLS with ${host} has failed: ${message}`
}

/** Drivers keep codes in several places, and a connection that was tried by several addresses keeps them in its parts. */
function read(error: unknown): { codes: string[]; message: string } {
  const parts = error instanceof AggregateError ? [error, ...error.errors] : [error]
  const codes = parts.flatMap((part: unknown) => {
    if (typeof part !== 'object' || part === null) return []
    const [code, errno]: unknown[] = [Reflect.get(part, 'code'), Reflect.get(part, 'errno')]
    const number = typeof errno === 'number' && errno > 0 ? [String(errno)] : []
    return [...number, ...(typeof code === 'string' ? [code] : [])]
  })
  const messages = parts.flatMap((part: unknown) =>
    part instanceof Error && part.message !== '' ? [part.message] : [],
  )
  return { codes, message: (messages[0] ?? codes[0] ?? 'no reason').replace(/\s+/g, ' ').trim().slice(0, 300) }
}
