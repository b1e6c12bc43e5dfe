import { buildConnector } from 'undici'
import type { ConnectOptions } from './requests.ts'
import type { SocketOpener } from './socket-opener.ts'

/** How undici connects: by the opener where that looks whom it talks to, else by itself. */
export function createConnector(opener: SocketOpener, tls: ConnectOptions): buildConnector.connector {
  const byItself = buildConnector({ ...tls })
  return (options, done) => {
    const isSecure = options.protocol === 'https:'
    if (isSecure && opener.below === 'plain') return byItself(options, done)
    opener.open(options.hostname, Number(options.port || (isSecure ? 443 : 80))).then(
      (socket) => {
        if (isSecure && opener.below === 'all') byItself({ ...options, httpSocket: socket }, done)
        else done(null, socket)
      },
      (error: Error) => done(error, null),
    )
  }
}
