import { Agent, type RequestOptions } from 'node:https'
import { connect as startTls } from 'node:tls'
import { type Connected, handOver, type TlsOptions } from './connected.ts'
import type { SocketOpener } from './socket-opener.ts'

export { request } from 'node:https'

/** Connections below TLS, kept alive: by an opener where that looks whom it talks to. */
export function createSecureAgent(opener: SocketOpener, tls: TlsOptions): Agent {
  return opener.below === 'all' ? new OpenedSecureAgent(opener, tls) : new Agent({ keepAlive: true, ...tls })
}

class OpenedSecureAgent extends Agent {
  readonly #opener: SocketOpener

  constructor(opener: SocketOpener, tls: TlsOptions) {
    super({ keepAlive: true, ...tls })
    this.#opener = opener
  }

  override createConnection(options: RequestOptions, done?: Connected): undefined {
    const opened = this.#opener.open(options.host ?? '', Number(options.port))
    const { rejectUnauthorized, secureContext, servername } = { servername: undefined, ...this.options, ...options }
    const tls = {
      ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
      ...(secureContext === undefined ? {} : { secureContext }),
      ...(servername === undefined || servername === '' ? {} : { servername }),
    }
    handOver(
      opened.then((socket) => startTls({ ...tls, socket })),
      done,
    )
  }
}
