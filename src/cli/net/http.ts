import { type Client, createClient, type Fetch } from '../../shared/client.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { CliFailure, NoConnection } from '../kit/failure.ts'
import type { Reach } from '../kit/profile/target.ts'
import { maskedHeaders, maskedUrl } from '../kit/trace.ts'
import { requestBytes } from './byte-requests.ts'
import { followed } from './redirections.ts'
import { createRequests } from './requests.ts'
import { createSocketOpener, refusalIn } from './socket-opener.ts'
import { type BatchOpener, createOpeners, type StreamOpener } from './stream.ts'

/** How to reach a panel. */
export interface ConnectionOptions extends Reach {
  readonly token: string | undefined
  readonly insecure: boolean
  readonly requestTimeoutMs: number
  readonly retries: number
  readonly userAgent: string
  readonly clock: Clock
  /** Aborts everything that is under way. */
  readonly signal: AbortSignal
  /** Receives a line for each request, answer and repetition. */
  readonly trace: ((line: string) => void) | undefined
}

/** One panel, with one credential. */
export interface Connection {
  readonly client: Client
  readonly streams: StreamOpener
  /** The same for floods. */
  readonly batches: BatchOpener
  /** The retrying fetch below the client, for `panel api`. */
  readonly fetch: Fetch
  /** For streams: hands answers over as they arrive. */
  readonly streamFetch: Fetch
  /** For files: the same, of any length in both directions. */
  readonly fileFetch: Fetch
  close(): Promise<void>
}

const CONNECT_TIMEOUT_MS = 5000
/** The daemon sends a heartbeat every 25 s; a stream that is silent for longer than two of them is dead. */
const STREAM_SILENCE_MS = 60_000
const REPEATABLE = new Set([429, 502, 503, 504])

/** A connection pool with the time-outs, certificates and repetitions of the command line. What it needs for TLS and files is loaded then. */
export async function connect(options: ConnectionOptions): Promise<Connection> {
  const tls = {
    ...(options.caFile === undefined ? {} : { secureContext: (await import('./trust.ts')).trusting(options.caFile) }),
    ...(options.insecure ? { rejectUnauthorized: false } : {}),
    timeout: CONNECT_TIMEOUT_MS,
  }
  const opener = createSocketOpener({ ...options, timeoutMs: CONNECT_TIMEOUT_MS })
  const pool = (limits: { readonly headersTimeout: number; readonly bodyTimeout: number }) => {
    const undici = lazily(async () => {
      const [{ Agent, request }, { createConnector }] = await Promise.all([import('undici'), import('./connector.ts')])
      return { request, dispatcher: new Agent({ connect: createConnector(opener, tls), ...limits }) }
    })
    const send: Fetch = async (url, init) => {
      const ways = await undici.value()
      return followed(url, init.method, (here) => requestBytes(here, init, ways))
    }
    return { send, made: undici.made }
  }
  const files = pool({ headersTimeout: options.requestTimeoutMs, bodyTimeout: STREAM_SILENCE_MS })
  const patient = pool({ headersTimeout: 0, bodyTimeout: STREAM_SILENCE_MS })
  const requests = createRequests(tls, opener, { answerMs: options.requestTimeoutMs, silenceMs: STREAM_SILENCE_MS })
  const headers = { 'user-agent': options.userAgent }
  const once: Fetch = async (url, init) => {
    const timeout = AbortSignal.timeout(options.requestTimeoutMs)
    const signals = [options.signal, timeout, ...(init.signal === undefined ? [] : [init.signal])]
    try {
      const response = await traced(options, url, { ...init, signal: AbortSignal.any(signals) }, requests.fetch)
      const text = await response.text()
      return { status: response.status, headers: response.headers, text: () => Promise.resolve(text) }
    } catch (error) {
      if (timeout.aborted) throw requestTimedOut(url, options.requestTimeoutMs, error)
      throw error
    }
  }
  const fetch: Fetch = (url, init) => withRetries(options, () => once(url, init), isRepeatable(init))
  const streamFetch: Fetch = (url, init) =>
    traced(options, url, { ...init, signal: init.signal ?? options.signal }, requests.stream)
  const fileFetch: Fetch = (url, init) =>
    traced(options, url, { ...init, signal: init.signal ?? options.signal }, files.send)
  const longFetch: Fetch = (url, init) =>
    traced(options, url, { ...init, signal: init.signal ?? options.signal }, patient.send)
  const { token, clock } = options
  return {
    client: createClient({ baseUrl: options.url, token, fetch, fileFetch, longFetch, headers }),
    ...createOpeners({ baseUrl: options.url, token, fetch: streamFetch, clock, headers }),
    fetch,
    streamFetch,
    fileFetch,
    close: async () => {
      requests.close()
      for (const { made } of [files, patient]) await (await made())?.dispatcher.destroy()
    },
  }
}

type Init = Parameters<Fetch>[1] & { signal: AbortSignal }

/** Loads or makes something when it is asked for first, once; `made` says whether that has happened. */
function lazily<T>(make: () => Promise<T>): { value(): Promise<T>; made(): Promise<T> | undefined } {
  let made: Promise<T> | undefined
  return {
    value: () => {
      made ??= make()
      return made
    },
    made: () => made,
  }
}

async function traced<A extends { readonly status: number; readonly headers: { get(name: string): string | null } }>(
  options: ConnectionOptions,
  url: string,
  init: Init,
  fetch: (url: string, init: Init) => Promise<A>,
): Promise<A> {
  // Node loads its clock for durations when it is asked for first.
  const started = options.trace === undefined ? 0 : options.clock.monotonicMs()
  const call = `${init.method} ${new URL(url).pathname}`
  options.trace?.(`> ${init.method} ${maskedUrl(url)}`)
  options.trace?.(`> ${maskedHeaders(init.headers)}`)
  if (typeof init.body === 'string') options.trace?.(`> body of ${init.body.length} characters`)
  else if (init.body instanceof Uint8Array) options.trace?.(`> body of ${init.body.length} bytes`)
  try {
    const response = await fetch(url, init)
    if (options.trace !== undefined) {
      const took = Math.round(options.clock.monotonicMs() - started)
      const id = response.headers.get('x-request-id')
      options.trace(`< ${response.status} ${call} in ${took} ms${id === null ? '' : `, request ${id}`}`)
    }
    return response
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
    options.trace?.(`< failed ${call}: ${cause}`)
    const refusal = refusalIn(error)
    if (refusal !== undefined) throw refusal
    if (error instanceof TypeError) throw new NoConnection(new URL(url).origin, error)
    throw error
  }
}

/** A GET changes nothing; a POST with an Idempotency-Key is executed once however often it is sent. */
function isRepeatable(init: { method: string; headers: Record<string, string> }): boolean {
  return init.method === 'GET' || (init.method === 'POST' && init.headers['idempotency-key'] !== undefined)
}

type Answer = Awaited<ReturnType<Fetch>>

async function withRetries(
  options: ConnectionOptions,
  send: () => Promise<Answer>,
  repeatable: boolean,
): Promise<Answer> {
  for (let attempt = 0; ; attempt++) {
    const last = !repeatable || attempt >= options.retries
    let waitMs = 200 * 2 ** attempt
    try {
      const answer = await send()
      if (last || !REPEATABLE.has(answer.status) || (await isFinalRefusal(answer))) return answer
      waitMs = Math.max(waitMs, retryAfterMs(answer))
      // A long lock-out is for the person to know, not to sit through.
      if (waitMs > 10_000) return answer
      options.trace?.(`  repeating in ${waitMs} ms after ${answer.status}`)
    } catch (error) {
      if (last || options.signal.aborted || !isReset(error)) throw error
      options.trace?.(`  repeating in ${waitMs} ms after a cut connection`)
    }
    await options.clock.sleep(waitMs, options.signal)
  }
}

/** An offline node answers 503 at once and says so: asking again within seconds cannot help. */
async function isFinalRefusal(answer: Answer): Promise<boolean> {
  return answer.status === 503 && (await answer.text()).includes('"NODE_OFFLINE"')
}

function retryAfterMs(answer: Answer): number {
  const seconds = Number(answer.headers.get('retry-after') ?? '0')
  return Number.isFinite(seconds) ? seconds * 1000 : 0
}

function isReset(error: unknown): boolean {
  const codes = ['ECONNRESET', 'UND_ERR_SOCKET', 'EPIPE']
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && codes.includes(String(cause.code))) return true
  }
  return false
}

function requestTimedOut(url: string, ms: number, cause: unknown): CliFailure {
  return new CliFailure('UNREACHABLE', `${new URL(url).host} did not answer within ${ms / 1000} s`, {
    hint: 'raise --request-timeout, or look at the log of the daemon',
    cause,
  })
}
