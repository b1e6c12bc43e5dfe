import { Agent, type ClientRequestArgs, type IncomingMessage, request as requestPlain } from 'node:http'
import type { request as requestSecure, Agent as SecureAgent } from 'node:https'
import type { Fetch } from '../../shared/client.ts'
import { type Connected, handOver, type TlsOptions } from './connected.ts'
import { followed } from './redirections.ts'
import type { SocketOpener } from './socket-opener.ts'
import { wholeText } from './whole-text.ts'

/** How to connect. */
export interface ConnectOptions extends TlsOptions {
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
  let secure: Promise<SecureWay> | undefined
  const ways: Ways = {
    plain,
    // Loaded when it is needed: on one's own machine it mostly is not.
    secure: () => {
      secure ??= import('./secure-requests.ts').then(({ createSecureAgent, request }) => ({
        request,
        agent: createSecureAgent(opener, tls),
      }))
      return secure
    },
    timeout,
    isUnix: opener.below === 'unix',
  }
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
      void secure?.then(({ agent }) => agent.destroy())
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

/** How a request goes on its way. */
interface Ways {
  readonly plain: Agent
  readonly secure: () => Promise<SecureWay>
  readonly timeout: number
  readonly isUnix: boolean
}

/** The same below TLS. */
interface SecureWay {
  readonly request: typeof requestSecure
  readonly agent: SecureAgent
}

/** What is sent; `answerMs` bounds how long its answer may take to begin. */
type Init = Parameters<Fetch>[1] & { readonly answerMs?: number }

async function sent(
  url: string,
  { method, headers, body, signal, answerMs }: Init,
  { plain, secure, timeout, isUnix }: Ways,
): Promise<IncomingMessage> {
  const isSecure = new URL(url).protocol === 'https:' && !isUnix
  const below = isSecure ? await secure() : undefined
  return new Promise((resolve, reject) => {
    const options = { method, headers, ...(signal === undefined ? {} : { signal }) }
    const request = below
      ? below.request(url, { ...options, agent: below.agent })
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
  const whole = await wholeText(response)
  return { ...headOf(response), text: () => Promise.resolve(whole) }
}

function arrivingAnswer(response: IncomingMessage): Awaited<ReturnType<Fetch>> {
  return { ...headOf(response), body: response, text: () => wholeText(response) }
}
