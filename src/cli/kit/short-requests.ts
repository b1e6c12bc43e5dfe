import { Agent, type ClientRequestArgs, type IncomingMessage, request as requestPlain } from 'node:http'
import { type RequestOptions, request as requestSecure, Agent as SecureAgent } from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type SecureContext, connect as startTls } from 'node:tls'
import type { Fetch } from '../../shared/client.ts'
import { followed } from '../net/redirections.ts'
import type { SocketOpener } from '../net/socket-opener.ts'

/** How to connect. */
export interface ConnectOptions {
  /** Whose signatures are trusted; those of Node when absent. */
  readonly secureContext?: SecureContext
  readonly rejectUnauthorized?: boolean
  /** Milliseconds that a connection may take to be ready. */
  readonly timeout: number
}

/** Requests whose answers are read whole. */
export interface ShortRequests {
  readonly fetch: Fetch
  close(): void
}

/**
 * Requests over Node's own HTTP client, which is there at once: to load undici takes longer than most commands run. They
 * fail as undici's `fetch` does.
 */
export function createShortRequests({ timeout, ...tls }: ConnectOptions, opener: SocketOpener): ShortRequests {
  const plain = new OpenedAgent(opener)
  const secure =
    opener.below === 'all' ? new OpenedSecureAgent(opener, tls) : new SecureAgent({ keepAlive: true, ...tls })
  const fetch: Fetch = (url, init) =>
    followed(url, init.method, (here) =>
      sent(here, init, { plain, secure, timeout, isUnix: opener.below === 'unix' }).catch((cause: unknown) => {
        throw init.signal?.aborted === true ? init.signal.reason : new TypeError('fetch failed', { cause })
      }),
    )
  return {
    fetch,
    close: () => {
      plain.destroy()
      secure.destroy()
    },
  }
}

/** Connections by an opener, kept alive. */
class OpenedAgent extends Agent {
  readonly #opener: SocketOpener

  constructor(opener: SocketOpener) {
    super({ keepAlive: true })
    this.#opener = opener
  }

  override createConnection(options: ClientRequestArgs, done?: Connected): undefined {
    handOver(this.#opener.open(options.host ?? '', Number(options.port)), done)
  }
}

/** The same below TLS. */
class OpenedSecureAgent extends SecureAgent {
  readonly #opener: SocketOpener

  constructor(opener: SocketOpener, tls: Omit<ConnectOptions, 'timeout'>) {
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

type Connected = (error: Error | null, stream: Duplex) => void

function handOver(opened: Promise<Duplex>, done: Connected | undefined): void {
  opened.then(
    (socket) => done?.(null, socket),
    // Node's own callers look at the stream only where there is no error.
    (error: Error) => (done as ((error: Error) => void) | undefined)?.(error),
  )
}

/** How a request goes on its way. */
interface Ways {
  readonly plain: Agent
  readonly secure: SecureAgent
  readonly timeout: number
  readonly isUnix: boolean
}

function sent(
  url: string,
  { method, headers, body, signal }: Parameters<Fetch>[1],
  { plain, secure, timeout, isUnix }: Ways,
): ReturnType<Fetch> {
  return new Promise((resolve, reject) => {
    const isSecure = new URL(url).protocol === 'https:' && !isUnix
    const options = { method, headers, ...(signal === undefined ? {} : { signal }) }
    const request = isSecure
      ? requestSecure(url, { ...options, agent: secure })
      : requestPlain(url.replace(/^https:/, 'http:'), { ...options, agent: plain })
    request.once('error', reject)
    request.once('socket', (socket) => {
      if (!socket.connecting) return
      const late = setTimeout(() => {
        request.destroy(Object.assign(new Error('the host does not answer'), { code: 'ETIMEDOUT' }))
      }, timeout)
      socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(late))
      socket.once('close', () => clearTimeout(late))
    })
    request.once('response', (response) => resolve(answerOf(response)))
    request.end(body)
  })
}

async function answerOf(response: IncomingMessage): ReturnType<Fetch> {
  const whole = await text(response)
  return {
    status: response.statusCode ?? 0,
    headers: {
      get: (name) => {
        const value = response.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : (value ?? null)
      },
    },
    text: () => Promise.resolve(whole),
  }
}
