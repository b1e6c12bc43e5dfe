import { Agent, type ClientRequestArgs, type IncomingMessage, request as requestPlain } from 'node:http'
import { type RequestOptions, request as requestSecure, Agent as SecureAgent } from 'node:https'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { type SecureContext, connect as startTls } from 'node:tls'
import type { Fetch } from '../../shared/client.ts'
import { followed } from './redirections.ts'
import type { SocketOpener } from './socket-opener.ts'

/** How to connect. */
export interface ConnectOptions {
  /** Whose signatures are trusted; those of Node when absent. */
  readonly secureContext?: SecureContext
  readonly rejectUnauthorized?: boolean
  /** Milliseconds that a connection may take to be ready. */
  readonly timeout: number
}

/** How long a stream may take. */
export interface StreamLimits {
  /** Milliseconds until its answer begins. */
  readonly answerMs: number
  /** Milliseconds without a byte after which it counts as dead. */
  readonly silenceMs: number
}

/** Requests for everything but files. */
export interface Requests {
  /** Reads the answer whole. */
  readonly fetch: Fetch
  /** Hands the answer over as it arrives. */
  readonly stream: Fetch
  close(): void
}

/**
 * Requests over Node's own HTTP client, which is there at once: to load undici takes longer than most commands run, and 10
 * MiB. They fail as undici's `fetch` does.
 */
export function createRequests(
  { timeout, ...tls }: ConnectOptions,
  opener: SocketOpener,
  { answerMs, silenceMs }: StreamLimits,
): Requests {
  const plain = new OpenedAgent(opener)
  const secure =
    opener.below === 'all' ? new OpenedSecureAgent(opener, tls) : new SecureAgent({ keepAlive: true, ...tls })
  const ways = { plain, secure, timeout, isUnix: opener.below === 'unix' }
  const send = <A extends Answer>(url: string, init: Init, read: (response: IncomingMessage) => A | Promise<A>) =>
    followed(url, init.method, async (here): Promise<A> => {
      try {
        return await read(await sent(here, init, ways))
      } catch (cause) {
        throw init.signal?.aborted === true ? init.signal.reason : new TypeError('fetch failed', { cause })
      }
    })
  return {
    fetch: (url, init) => send(url, init, wholeAnswer),
    stream: (url, init) =>
      send(url, { ...init, answerMs }, (response) => {
        endWhenSilent(response, silenceMs)
        return response.statusCode === 200 ? arrivingAnswer(response) : wholeAnswer(response)
      }),
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

/** What is sent; `answerMs` bounds how long its answer may take to begin. */
type Init = Parameters<Fetch>[1] & { readonly answerMs?: number }

function sent(
  url: string,
  { method, headers, body, signal, answerMs }: Init,
  { plain, secure, timeout, isUnix }: Ways,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const isSecure = new URL(url).protocol === 'https:' && !isUnix
    const options = { method, headers, ...(signal === undefined ? {} : { signal }) }
    const request = isSecure
      ? requestSecure(url, { ...options, agent: secure })
      : requestPlain(url.replace(/^https:/, 'http:'), { ...options, agent: plain })
    const giveUp = (message: string): void => {
      request.destroy(Object.assign(new Error(message), { code: 'ETIMEDOUT' }))
    }
    request.once('error', reject)
    request.once('socket', (socket) => {
      if (!socket.connecting) return
      const late = setTimeout(() => giveUp('the host does not answer'), timeout)
      socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(late))
      socket.once('close', () => clearTimeout(late))
    })
    const late =
      answerMs === undefined ? undefined : setTimeout(() => giveUp(`no answer within ${answerMs / 1000} s`), answerMs)
    request.once('close', () => clearTimeout(late))
    request.once('response', (response) => {
      clearTimeout(late)
      resolve(response)
    })
    request.end(body)
  })
}

/** Ends an answer that brings nothing for so long; one whose reader has left bytes unread cannot bring any. */
function endWhenSilent(response: IncomingMessage, ms: number): void {
  const { socket } = response
  const onTimeout = (): void => {
    if (response.readableLength > 0) socket.setTimeout(ms)
    else response.destroy(new Error(`nothing came for ${ms / 1000} s`))
  }
  socket.setTimeout(ms).on('timeout', onTimeout)
  response.once('close', () => socket.setTimeout(0).off('timeout', onTimeout))
}

/** Status and headers of an answer. */
interface Answer {
  readonly status: number
  readonly headers: { get(name: string): string | null }
}

function headOf(response: IncomingMessage): Answer {
  return {
    status: response.statusCode ?? 0,
    headers: {
      get: (name) => {
        const value = response.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : (value ?? null)
      },
    },
  }
}

async function wholeAnswer(response: IncomingMessage): ReturnType<Fetch> {
  const whole = await text(response)
  return { ...headOf(response), text: () => Promise.resolve(whole) }
}

function arrivingAnswer(response: IncomingMessage): Awaited<ReturnType<Fetch>> {
  return { ...headOf(response), body: response, text: () => text(response) }
}
