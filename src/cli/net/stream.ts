import { createParser } from 'eventsource-parser'
import { type Fetch, type LooseInput, readEnvelope, urlOf } from '../../shared/client.ts'
import type { CallInput, StreamEndpoint } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { CliFailure } from '../kit/failure.ts'

/**
 * What a stream yields. `frame`: one event (`id` is '' when it carries none, `data` is the JSON text as sent);
 * `open`: connected, after the first time and after every reconnect; `retrying`: cut off, the next try is in `inMs`.
 */
export type StreamItem =
  | Frame
  | { readonly kind: 'open' }
  | { readonly kind: 'retrying'; readonly inMs: number; readonly attempt: number; readonly reason: string }

/** One event. */
export interface Frame {
  readonly kind: 'frame'
  readonly id: string
  readonly event: string
  readonly data: string
}

/** Where a stream is and how it is kept up. */
export interface StreamOptions {
  readonly url: string
  readonly token?: string | undefined
  /** Hands answers over as they arrive. */
  readonly fetch: Fetch
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

/** Opens streams of one daemon with one credential. */
export type Opener<Yielded> = <E extends StreamEndpoint>(
  endpoint: E,
  input: CallInput<E>,
  overrides?: Pick<StreamOptions, 'lastEventId' | 'signal' | 'retries' | 'retriesBeforeOpen'>,
) => AsyncGenerator<Yielded, void, undefined>

/** `open(streamConsole, { params: { serverId }, query: { lines: 200 } }, { signal })`, as {@link openStream}. */
export type StreamOpener = Opener<StreamItem>
/** The same, with the items that arrived together in one piece: in a flood every step per item is dear. */
export type BatchOpener = Opener<readonly StreamItem[]>

/** The openers of one daemon. */
export function createOpeners(
  options: Pick<StreamOptions, 'token' | 'fetch' | 'clock' | 'headers'> & { readonly baseUrl: string },
): { readonly streams: StreamOpener; readonly batches: BatchOpener } {
  const { baseUrl, ...rest } = options
  const batches: BatchOpener = (endpoint, input, overrides) =>
    openBatches({ ...rest, ...overrides, url: urlOf(endpoint, input as LooseInput, baseUrl) }) // CallInput is a narrower LooseInput
  return { batches, streams: (endpoint, input, overrides) => oneByOne(batches(endpoint, input, overrides)) }
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
export function openStream(options: StreamOptions): AsyncGenerator<StreamItem, void, undefined> {
  return oneByOne(openBatches(options))
}

async function* oneByOne(batches: AsyncIterable<readonly StreamItem[]>): AsyncGenerator<StreamItem, void, undefined> {
  for await (const items of batches) yield* items
}

async function* openBatches(options: StreamOptions): AsyncGenerator<readonly StreamItem[], void, undefined> {
  let lastEventId = options.lastEventId
  let attempt = 0
  let opened = false
  while (options.signal?.aborted !== true) {
    const end = yield* connection({ ...options, lastEventId }, (items) => {
      opened = true
      if (items.some(({ kind }) => kind === 'frame')) attempt = 0
      lastEventId = items.findLast((item): item is Frame => item.kind === 'frame' && item.id !== '')?.id ?? lastEventId
    })
    if (isAborted(options.signal)) return
    if (end.refusal !== undefined && isFinal(end.refusal)) throw end.refusal
    if (end.cause instanceof CliFailure) throw end.cause
    attempt += 1
    const most = (opened ? undefined : options.retriesBeforeOpen) ?? options.retries
    if (most !== undefined && attempt > most) throw end.refusal ?? end.cause ?? cutOff(end.reason)
    const inMs = Math.max(delayFor(attempt), end.retryAfterMs)
    yield [{ kind: 'retrying', inMs, attempt, reason: end.reason }]
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
  readonly refusal?: PanelError
  readonly cause?: unknown
  readonly retryAfterMs: number
}

/** Bytes that become events at a time: what waits for its reader makes V8's young generation grow, for good. */
const PIECE = 4096
const OPEN: readonly StreamItem[] = [{ kind: 'open' }]
/** Characters of one event; the longest line of a console has far fewer. */
const LONGEST_EVENT = 16 * 1024 * 1024

/** Everything of one connection; returns why it ended. It is closed on every way out. */
async function* connection(
  options: StreamOptions,
  onItems: (items: readonly StreamItem[]) => void,
): AsyncGenerator<readonly StreamItem[], ConnectionEnd, undefined> {
  const end = new AbortController()
  const signal = options.signal === undefined ? end.signal : AbortSignal.any([options.signal, end.signal])
  let items: Frame[] = []
  const parser = createParser({
    maxBufferSize: LONGEST_EVENT,
    onEvent: ({ id = '', event = 'message', data }) => items.push({ kind: 'frame', id, event, data }),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') throw error
    },
  })
  let response: Awaited<ReturnType<Fetch>> | undefined
  try {
    response = await options.fetch(options.url, { method: 'GET', headers: headersOf(options), signal })
    if (response.status !== 200) return await refusalOf(response)
    if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true)
      return because('no event stream')
    onItems(OPEN)
    yield OPEN
    const text = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      for (let at = 0; at < chunk.length; at += PIECE) {
        parser.feed(text.decode(chunk.subarray(at, at + PIECE), { stream: true }))
        if (isAborted(options.signal)) return because('stopped')
        if (items.length === 0) continue
        const arrived = items
        items = []
        onItems(arrived)
        yield arrived
      }
    }
    return because('the connection was closed')
  } catch (error) {
    return { ...because(reasonOf(error)), ...(response === undefined ? { cause: error } : {}) }
  } finally {
    end.abort()
  }
}

function headersOf({ headers, token, lastEventId }: StreamOptions): Record<string, string> {
  return {
    ...headers,
    accept: 'text/event-stream',
    'cache-control': 'no-store',
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  }
}

/** The daemon's refusal, where the answer is one. */
async function refusalOf(response: Awaited<ReturnType<Fetch>>): Promise<ConnectionEnd> {
  const seconds = Number(response.headers.get('retry-after') ?? '0')
  const retryAfterMs = Number.isFinite(seconds) ? Math.min(seconds * 1000, 300_000) : 0
  const text = await response.text()
  try {
    readEnvelope(response.status, text)
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    const { code, message, meta, details } = error
    const refusal = new PanelError(code, message, {
      meta: { ...meta, httpStatus: response.status },
      ...(details === undefined ? {} : { details }),
    })
    return { reason: message, refusal, retryAfterMs }
  }
  return { reason: `the answer is ${response.status}`, retryAfterMs }
}

function because(reason: string): ConnectionEnd {
  return { reason, retryAfterMs: 0 }
}

/** What a failure comes down to. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : reasonOf(error.cause)
}
