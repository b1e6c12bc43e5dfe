import type { Socket } from 'node:net'
import type { buildConnector } from 'undici'
import { connectTrusted, isLoopbackHost } from '../../shared/platform/listener.ts'
import { errorText } from '../logger.ts'

const CONNECT_TIMEOUT_MS = 10_000

/** What is trusted on the way to the daemon. */
export interface DaemonTrust {
  /** Certificates to trust, as PEM, beside none of the system's. */
  readonly ca?: string
  /** The user that served the daemon's address at the enrolment; a daemon on this machine. */
  readonly listenerUid?: number
  /** Plain http to another machine. */
  readonly allowInsecure?: boolean
}

/** Connects over plain http; on this machine only to a program of root, of the agent's own user or the accepted one. */
export function connectPlain(url: URL, { listenerUid, allowInsecure }: DaemonTrust): Promise<Socket> {
  return connectTrusted({
    host: url.hostname,
    port: Number(url.port || 80),
    timeoutMs: CONNECT_TIMEOUT_MS,
    listenerUid,
    onlyHere: allowInsecure !== true && isLoopbackHost(url.hostname),
  })
}

/** The same for undici, whose connector is for https. */
export function daemonConnector(trust: DaemonTrust, build: typeof buildConnector): buildConnector.connector {
  const secure = build({ ...(trust.ca === undefined ? {} : { ca: trust.ca }), timeout: CONNECT_TIMEOUT_MS })
  return (options, done) => {
    if (options.protocol === 'https:') return secure(options, done)
    connectPlain(new URL(`http://${options.host ?? options.hostname}`), trust).then(
      (socket) => done(null, socket),
      (error: Error) => done(error, null),
    )
  }
}

/** Why the daemon cannot be reached; an unknown certificate is named as such, with what to do about it. */
export function connectionProblem(error: unknown): string {
  let last = error
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
    if (/CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)) {
      return `its certificate is not accepted: ${cause.message} (${code}); name the authority that signed it with --ca-file <pem>`
    }
    last = cause
  }
  return errorText(last)
}
