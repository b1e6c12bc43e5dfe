import type { Duplex } from 'node:stream'
import type { SecureContext } from 'node:tls'

/** Whose certificates are trusted. */
export interface TlsOptions {
  /** Whose signatures are trusted; those of Node when absent. */
  readonly secureContext?: SecureContext
  readonly rejectUnauthorized?: boolean
}

/** How Node's agents take a connection. */
export type Connected = (error: Error | null, stream: Duplex) => void

/** Gives an agent the connection that was opened. */
export function handOver(opened: Promise<Duplex>, done: Connected | undefined): void {
  opened.then(
    (socket) => done?.(null, socket),
    // Node's own callers look at the stream only where there is no error.
    (error: Error) => (done as ((error: Error) => void) | undefined)?.(error),
  )
}
