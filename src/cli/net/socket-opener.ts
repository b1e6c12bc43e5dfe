import type { Socket } from 'node:net'
import { connectTrusted, isLoopbackHost, LeftMachine, UntrustedListener } from '../../shared/platform/listener.ts'
import { connectPrivately, ExposedPath } from '../../shared/platform/private-folder.ts'
import { CliFailure } from '../kit/failure.ts'
import type { Reach } from '../kit/profile/target.ts'

/** Opens the connections for which the program looks whom it talks to before it says a word. */
export interface SocketOpener {
  open(host: string, port: number): Promise<Socket>
  /** `unix`: nothing else is used, whatever the URL; `plain`: below plain http; `all`: below TLS as well. */
  readonly below: 'unix' | 'plain' | 'all'
}

/** What an opener needs to know of the panel. */
export interface OpenerOptions extends Pick<Reach, 'url' | 'socket' | 'listenerUid' | 'insecureHttp'> {
  /** The certificate is not checked: TLS says nothing of who is at the other end. */
  readonly insecure: boolean
  readonly timeoutMs: number
}

/**
 * The way to a panel. Plain http to another machine is refused unless it was insisted on; on this machine whoever serves the
 * URL must be trusted. Verified TLS proves the other end by itself.
 */
export function createSocketOpener(options: OpenerOptions): SocketOpener {
  const { socket, listenerUid, insecureHttp, insecure, timeoutMs } = options
  if (socket !== undefined) return { open: () => connectPrivately(socket), below: 'unix' }
  const url = new URL(options.url)
  const named = isLoopbackHost(url.hostname)
  if (url.protocol === 'http:' && !named && !insecureHttp) {
    throw new CliFailure(
      'INSECURE_HTTP',
      `${url.origin} is plain http to another machine: everybody on the way could read your key`,
      {
        hint: `https://${url.host}, or --insecure-http to send it nevertheless`,
      },
    )
  }
  const onlyHere = named && !insecureHttp && url.protocol === 'http:'
  const open = (host: string, port: number) => connectTrusted({ host, port, timeoutMs, listenerUid, onlyHere })
  return { open, below: insecure ? 'all' : 'plain' }
}

/** The refusal in the cause of a failed request, as a person reads it; `undefined` when it failed otherwise. */
export function refusalIn(error: unknown): CliFailure | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (cause instanceof UntrustedListener) {
      const [uid] = cause.uids
      const hint =
        uid === undefined
          ? 'panel up, or an https URL'
          : `if that is your panel: --listener-uid ${uid} (panel login keeps it); else panel up, or an https URL`
      return new CliFailure('UNTRUSTED_LISTENER', cause.message, { hint, cause })
    }
    if (cause instanceof LeftMachine)
      return new CliFailure('INSECURE_HTTP', cause.message, { hint: 'an https URL', cause })
    if (cause instanceof CliFailure) return cause
    if (cause instanceof ExposedPath) return new CliFailure('UNTRUSTED_LISTENER', cause.message, { cause })
  }
  return undefined
}
