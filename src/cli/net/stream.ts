import { EventSource } from 'eventsource'
import { type LooseInput, readEnvelope, urlOf } from '../../shared/client.ts'
import type { CallInput, StreamEndpoint } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { CliFailure } from '../kit/failure.ts'

/**
 * What a stream tells. `frame`: one event (`id` is '' when it carries none, `data` is the JSON text as sent);
 * `open`: connected, after the first time and after every reconnect; `retrying`: cut off, the next try is in `inMs`.
 */
export type StreamItem =
  | { readonly kind: 'frame'; readonly id: string; readonly event: string; readonly data: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'retrying'; readonly inMs: number; readonly attempt: number; readonly reason: string }

/** The part of `fetch` that a stream needs; undici's and the global one fit. */
export type StreamFetch = (
  url: string,
  init: { method: 'GET'; headers: Record<string, string>; signal: AbortSignal },
) => Promise<StreamResponse>

interface StreamResponse {
  readonly status: number
  readonly url: string
  readonly redirected: boolean
  readonly headers: { get(name: string): string | null }
  readonly body: { getReader(): ByteReader } | null
  text(): Promise<string>
}

interface ByteReader {
  read(): Promise<{ done: false; value: unknown } | { done: true; value?: unknown }>
  cancel(): Promise<void>
}

/** Where a stream is and how it is kept up. */
export interface StreamOptions {
  readonly url: string
  readonly token?: string | undefined
  readonly fetch: StreamFetch
  readonly clock: Clock
  /** Sent with each request, such as `user-agent`. */
  readonly headers?: Readonly<Record<string, string>>
  /** The last event already seen; later ones are kept and sent on every reconnect. */
  readonly lastEventId?: string | undefined
  /** Ends the iteration quietly. */
  readonly signal?: AbortSignal | undefined
  /** How many tries in a row may fail before the last failure is thrown; without it, it tries for ever. */
  readonly retries?: number | undefined
  /** The same as long as it has never been open. */
  readonly retriesBeforeOpen?: number | undefined
}

/** Opens the streams of one daemon with one credential. */
export type StreamOpener = <E extends StreamEndpoint>(
  endpoint: E,
  input: CallInput<E>,
  overrides?: Pick<StreamOptions, 'lastEventId' | 'signal' | 'retries' | 'retriesBeforeOpen'>,
) => AsyncGenerator<StreamItem, void, undefined>

/** A {@link StreamOpener}: `open(streamConsole, { params: { serverId }, query: { lines: 200 } }, { signal })`. */
export function createStreamOpener(
  options: Pick<StreamOptions, 'token' | 'fetch' | 'clock' | 'headers'> & { readonly baseUrl: string },
): StreamOpener {
  const { baseUrl, ...rest } = options
  return (endpoint, input, overrides) =>
    openStream({ ...rest, ...overrides, url: urlOf(endpoint, input as LooseInput, baseUrl) }) // CallInput is a narrower LooseInput
}

const FIRST_DELAY_MS = 500
const LONGEST_DELAY_MS = 15_000

/**
 * Follows an event stream over reconnects:
 *
 *     for await (const item of openStream({ url, token, fetch, clock, signal })) {
 *       if (item.kind === 'frame') show(item.event, JSON.parse(item.data))
 *       else if (item.kind === 'retrying') notice(`reconnecting in ${item.inMs} ms`)
 *     }
 *
 * A cut connection is opened again after 0.5 s to 15 s (with jitter, longer when the daemon says Retry-After) and resumes
 * by Last-Event-ID. Ends when `signal` aborts. Throws the daemon's PanelError when it refuses for good (401, 403, 404,
 * 423 and every other 4xx but 408 and 429). An `error` frame comes as a frame; when it ends the stream, the reconnect
 * that follows throws the refusal. A slow reader slows the connection down: nothing is dropped, little is kept in memory.
 */
export async function* openStream(options: StreamOptions): AsyncGenerator<StreamItem, void, undefined> {
  let lastEventId = options.lastEventId
  let attempt = 0
  let opened = false
  while (options.signal?.aborted !== true) {
    const connection = new Connection(options, lastEventId)
    const end = yield* connection.items((item) => {
      opened = true
      if (item.kind !== 'frame') return
      attempt = 0
      if (item.id !== '') lastEventId = item.id
    })
    if (isAborted(options.signal)) return
    if (end.refusal !== undefined && isFinal(end.refusal)) throw end.refusal
    if (end.cause instanceof CliFailure) throw end.cause
    attempt += 1
    const most = (opened ? undefined : options.retriesBeforeOpen) ?? options.retries
    if (most !== undefined && attempt > most) throw end.refusal ?? end.cause ?? cutOff(end.reason)
    const inMs = Math.max(delayFor(attempt), end.retryAfterMs)
    yield { kind: 'retrying', inMs, attempt, reason: end.reason }
    await options.clock.sleep(inMs, options.signal)
  }
}

/** Between half of the doubled delay and all of it, so that many clients do not come back at once. */
function delayFor(attempt: number): number {
  const full = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 10))
  return Math.round(full / 2 + Math.random() * (full / 2))
}

/** The signal as it is now; a call, because the compiler takes a property that it has seen as settled. */
function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true
}

function isFinal(refusal: PanelError): boolean {
  const status = refusal.meta['httpStatus']
  return typeof status === 'number' && status >= 400 && status < 500 && status !== 408 && status !== 429
}

function cutOff(reason: string): PanelError {
  return new PanelError('SHUTTING_DOWN', `The event stream was cut off: ${reason}`)
}

/** Why a connection is over. */
interface ConnectionEnd {
  readonly reason: string
  readonly refusal: PanelError | undefined
  readonly cause: unknown
  readonly retryAfterMs: number
}

/** How many frames may wait for the reader before the connection is read no further. */
const MOST_WAITING = 2000

/** One connection: a queue between the parser of `eventsource` and the reader of the iterator. */
class Connection {
  readonly #options: StreamOptions
  readonly #lastEventId: string | undefined
  readonly #abort = new AbortController()
  readonly #source: EventTap
  #queue: StreamItem[] = []
  #ended: string | undefined
  #refusal: PanelError | undefined
  #cause: unknown
  #retryAfterMs = 0
  #wakeReader = (): void => {}
  #wakeParser = (): void => {}

  constructor(options: StreamOptions, lastEventId: string | undefined) {
    this.#options = options
    this.#lastEventId = lastEventId
    this.#source = new EventTap(
      options.url,
      (_, init) => this.#fetch(init.headers),
      (event) => this.#onEvent(event),
    )
  }

  /** Everything of this connection; returns why it ended. Closes the connection on every way out. */
  async *items(onItem: (item: StreamItem) => void): AsyncGenerator<StreamItem, ConnectionEnd, undefined> {
    const stop = (): void => this.#end('stopped')
    this.#options.signal?.addEventListener('abort', stop)
    if (isAborted(this.#options.signal)) stop()
    try {
      for (;;) {
        const batch = this.#queue
        this.#queue = []
        this.#wakeParser()
        for (const item of batch) {
          if (isAborted(this.#options.signal)) return this.#reason()
          onItem(item)
          yield item
        }
        if (this.#queue.length > 0) continue
        if (this.#ended !== undefined) return this.#reason()
        await new Promise<void>((resolve) => {
          this.#wakeReader = resolve
        })
      }
    } finally {
      this.#options.signal?.removeEventListener('abort', stop)
      this.#end('stopped')
    }
  }

  #reason(): ConnectionEnd {
    const reason = this.#refusal?.message ?? this.#ended ?? 'the connection was closed'
    return { reason, refusal: this.#refusal, cause: this.#cause, retryAfterMs: this.#retryAfterMs }
  }

  #onEvent(event: Event): void {
    if (event instanceof MessageEvent) {
      this.#push({ kind: 'frame', id: event.lastEventId, event: event.type, data: String(event.data) })
    } else if (event.type === 'open') {
      this.#push({ kind: 'open' })
    } else {
      this.#end('message' in event && typeof event.message === 'string' ? event.message : 'the connection was closed')
    }
  }

  #push(item: StreamItem): void {
    if (this.#ended !== undefined) return
    this.#queue.push(item)
    this.#wakeReader()
  }

  #end(reason: string): void {
    this.#ended ??= reason
    this.#source.close()
    this.#abort.abort()
    this.#wakeReader()
    this.#wakeParser()
  }

  async #fetch(headers: Record<string, string>): Promise<StreamResponse> {
    const { token, url } = this.#options
    try {
      const response = await this.#options.fetch(url, {
        method: 'GET',
        headers: {
          ...this.#options.headers,
          ...headers,
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }),
        },
        signal: this.#abort.signal,
      })
      if (response.status !== 200) await this.#readRefusal(response)
      return { ...pick(response), body: this.#paced(response.body) }
    } catch (error) {
      this.#cause = error
      throw error
    }
  }

  async #readRefusal(response: StreamResponse): Promise<void> {
    const seconds = Number(response.headers.get('retry-after') ?? '0')
    this.#retryAfterMs = Number.isFinite(seconds) ? Math.min(seconds * 1000, 300_000) : 0
    const text = await response.text()
    try {
      readEnvelope(response.status, text)
    } catch (error) {
      if (!(error instanceof PanelError)) throw error
      const { code, message, meta, details } = error
      this.#refusal = new PanelError(code, message, {
        meta: { ...meta, httpStatus: response.status },
        ...(details === undefined ? {} : { details }),
      })
    }
  }

  /** Reads on only while the queue has room. */
  #paced(body: StreamResponse['body']): StreamResponse['body'] {
    if (body === null) return null
    const reader = body.getReader()
    return {
      getReader: () => ({
        read: async () => {
          while (this.#queue.length >= MOST_WAITING && this.#ended === undefined) {
            await new Promise<void>((resolve) => {
              this.#wakeParser = resolve
            })
          }
          return reader.read()
        },
        cancel: () => reader.cancel(),
      }),
    }
  }
}

function pick(response: StreamResponse): StreamResponse {
  const { status, url, redirected, headers } = response
  return { status, url, redirected, headers, body: null, text: () => response.text() }
}

/** An EventSource that hands over every event, whatever its name: names are known only to the daemon. */
class EventTap extends EventSource {
  readonly #tap: (event: Event) => void

  constructor(
    url: string,
    fetch: (url: string | URL, init: { headers: Record<string, string> }) => Promise<StreamResponse>,
    tap: (event: Event) => void,
  ) {
    super(url, { fetch })
    this.#tap = tap
  }

  override dispatchEvent(event: Event): boolean {
    this.#tap(event)
    return true
  }
}
