import { rootCertificates } from 'node:tls'
import type { DatabaseTls } from '../../../../shared/api/database-hosts.ts'
import { isLoopbackHost } from '../../../../shared/kernel/setting-values.ts'
import type { HostPlace } from './host-failure.ts'

/** All that a connection needs; the password is the host's, in clear. */
export interface HostAddress extends HostPlace {
  readonly password: string
  readonly tls: DatabaseTls
  readonly caCertificate: string | null
}

/** One row of an answer. */
export type Row = Readonly<Record<string, unknown>>

/** A connection as a driver makes it. Time-outs are the caller's: `destroy` ends it at once, whatever it waits for. */
export interface Driver {
  open(): Promise<void>
  query(sql: string): Promise<readonly Row[]>
  /** How much the host has sent so far. */
  bytesRead(): number
  /** Says goodbye and ends. */
  close(): Promise<void>
  destroy(): void
}

/** The TLS options of both drivers; `undefined`: none. */
export interface TlsOptions {
  readonly minVersion: 'TLSv1.2'
  readonly rejectUnauthorized: boolean
  readonly ca?: string[]
}

/** How the connection to this host is protected. */
export function tlsOf({ host, tls, caCertificate }: HostAddress): TlsOptions | undefined {
  const mode = tls === 'auto' ? (isLoopbackHost(host) ? 'off' : 'require') : tls
  if (mode === 'off') return undefined
  const rejectUnauthorized = mode === 'verify'
  const ca = caCertificate === null ? {} : { ca: [...rootCertificates, caCertificate] }
  return { minVersion: 'TLSv1.2', rejectUnauthorized, ...ca }
}
