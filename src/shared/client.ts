import type { ByteStream, CallInput, Data, Endpoint, StreamEndpoint, Upload } from './kernel/contract.ts'
import { type ErrorCode, type FieldProblem, isErrorCode, PanelError } from './kernel/errors.ts'
import type { Pagination } from './kernel/page.ts'
import { percentEncoded } from './kernel/path-text.ts'

/** The part of `fetch` that the client needs; the command line passes undici's, tests pass the global one. */
export type Fetch = (
  url: string,
  init: {
    method: string
    headers: Record<string, string>
    body?: string | Uint8Array | AsyncIterable<Uint8Array>
    /** Of a body that is sent while it is made. */
    duplex?: 'half'
    signal?: AbortSignal
  },
) => Promise<FetchAnswer>

/** What {@link Fetch} answers. */
interface FetchAnswer {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  readonly body?: AsyncIterable<Uint8Array> | null
  text(): Promise<string>
}

/** How to reach a daemon. `token` is an API key or session token. */
export interface ClientOptions {
  readonly baseUrl: string
  readonly token?: string | undefined
  readonly fetch: Fetch
  /** For files, whose bodies may take as long as they like; `fetch` when absent. */
  readonly fileFetch?: Fetch
  /** For endpoints that may work for minutes before they answer; the one for files when absent. */
  readonly longFetch?: Fetch
  /** Sent with each request, such as `user-agent`. */
  readonly headers?: Readonly<Record<string, string>>
}

/** What one call may override. */
export interface CallOptions {
  readonly signal?: AbortSignal
  /** Makes a repeated POST harmless: the daemon answers the first one's result. */
  readonly idempotencyKey?: string
  /** Of bytes: ranges and conditions. */
  readonly headers?: Readonly<Record<string, string>>
  /** Asks for the headers alone. */
  readonly head?: boolean
}

type Rest<E extends Endpoint> = [keyof CallInput<E>] extends [never]
  ? [input?: undefined, options?: CallOptions]
  : Record<never, never> extends CallInput<E>
    ? [input?: CallInput<E>, options?: CallOptions]
    : [input: CallInput<E>, options?: CallOptions]

/** What {@link Client.stream} answers. */
export interface StreamedBytes {
  readonly status: number
  readonly headers: { get(name: string): string | null }
  readonly content: AsyncIterable<Uint8Array>
}

/** A typed client of the API. A refusal rejects with the daemon's PanelError, `meta.requestId` included. */
export interface Client {
  /** The `data` of the answer. */
  call<E extends Endpoint>(endpoint: E, ...rest: Rest<E>): Promise<Data<E>>
  /** `data` with the `pagination` beside it. */
  page<E extends Endpoint>(endpoint: E, ...rest: Rest<E>): Promise<{ data: Data<E>; pagination: Pagination }>
  /** An endpoint that `answers: 'stream'`: bytes as they arrive, with status (200, 206 or 304) and headers. */
  stream<E extends Endpoint>(endpoint: E, ...rest: Rest<E>): Promise<StreamedBytes>
  /** The bytes of an endpoint that `answers: 'file'`, as they arrive. */
  file<E extends Endpoint>(endpoint: E, ...rest: Rest<E>): Promise<AsyncIterable<Uint8Array>>
}

/** A client for one daemon and one credential. */
export function createClient(options: ClientOptions): Client {
  const request = async (endpoint: Endpoint, input: LooseInput, call: CallOptions): Promise<FetchAnswer> => {
    const sent = input.body === undefined ? undefined : await encoded(endpoint, input.body)
    const isBytes = endpoint.answers === 'file' || endpoint.answers === 'stream' || endpoint.accepts === 'stream'
    const byteFetch = options.fileFetch ?? options.fetch
    const fetch = endpoint.long ? (options.longFetch ?? byteFetch) : isBytes ? byteFetch : options.fetch
    return fetch(urlOf(endpoint, input, options.baseUrl), {
      method: call.head === true ? 'HEAD' : endpoint.method,
      headers: {
        ...options.headers,
        ...call.headers,
        accept: 'application/json',
        ...(options.token === undefined ? {} : { authorization: `Bearer ${options.token}` }),
        ...(sent === undefined ? {} : { 'content-type': sent.type, ...sent.headers }),
        ...(call.idempotencyKey === undefined ? {} : { 'idempotency-key': call.idempotencyKey }),
      },
      ...(sent === undefined ? {} : { body: sent.body }),
      ...(endpoint.accepts === 'stream' ? { duplex: 'half' as const } : {}),
      ...(call.signal === undefined ? {} : { signal: call.signal }),
    })
  }
  const send = async (endpoint: Endpoint, input: LooseInput, call: CallOptions) => {
    const response = await request(endpoint, input, call)
    const envelope = readEnvelope(response.status, await response.text())
    const data = await endpoint.response.parseAsync(envelope.data)
    return { data, pagination: envelope.pagination }
  }
  return {
    call: async (endpoint, ...rest) => {
      const { data } = await send(endpoint, (rest[0] ?? {}) as LooseInput, rest[1] ?? {}) // CallInput is a narrower LooseInput
      return data as Data<typeof endpoint> // parsed by that endpoint's own schema
    },
    page: async (endpoint, ...rest) => {
      const { data, pagination } = await send(endpoint, (rest[0] ?? {}) as LooseInput, rest[1] ?? {}) // as above
      const known = pagination ?? { page: 1, limit: 0, total: 0, totalPages: 0 }
      return { data: data as Data<typeof endpoint>, pagination: known } // as above
    },
    stream: async (endpoint, ...rest) => {
      const response = await request(endpoint, (rest[0] ?? {}) as LooseInput, rest[1] ?? {}) // as above
      const { status, headers, body } = response
      if (status !== 200 && status !== 206 && status !== 304) {
        readEnvelope(status, await response.text()) // throws the refusal that the envelope carries
      }
      return { status, headers, content: body ?? nothing() }
    },
    file: async (endpoint, ...rest) => {
      const response = await request(endpoint, (rest[0] ?? {}) as LooseInput, rest[1] ?? {}) // as above
      if (response.status !== endpoint.status || response.body === null || response.body === undefined) {
        readEnvelope(response.status, await response.text()) // throws the refusal that the envelope carries
        throw new PanelError('INTERNAL_ERROR', `The server answered ${response.status} where a file was expected`)
      }
      return response.body
    },
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

/** The body of a request as bytes on the wire. The file of a form is read whole before it is sent, bytes go as they come. */
async function encoded(endpoint: Endpoint, body: unknown): Promise<Encoded> {
  if (endpoint.accepts === 'stream') {
    const { contentType, length, content } = body as ByteStream // the type of what the endpoint accepts
    return {
      type: contentType,
      body: length === 0 ? new Uint8Array() : content,
      headers: length === null ? {} : { 'content-length': String(length) },
    }
  }
  if (endpoint.accepts === 'json') return { type: 'application/json', body: JSON.stringify(body) }
  const { fileName, contentType, content, fields } = body as Upload // as above
  const pieces: Uint8Array<ArrayBuffer>[] = []
  for await (const piece of content) pieces.push(Uint8Array.from(piece))
  const form = new FormData()
  for (const [name, text] of Object.entries(fields ?? {})) form.set(name, text)
  form.set('file', new Blob(pieces, { type: contentType }), fileName)
  const written = new Response(form)
  const type = written.headers.get('content-type') ?? ''
  return { type, body: new Uint8Array(await written.arrayBuffer()) }
}

interface Encoded {
  readonly type: string
  readonly body: string | Uint8Array | AsyncIterable<Uint8Array>
  readonly headers?: Readonly<Record<string, string>>
}

/** The parts of an input as they go on the wire. */
export interface LooseInput {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
}

/** The URL of a call: path parameters encoded, query values as text, those undefined left out. */
export function urlOf(endpoint: Endpoint | StreamEndpoint, input: LooseInput, baseUrl: string): string {
  const path = endpoint.path.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(input.params?.[name] ?? ''))
  const url = new URL(path.slice(1), baseUrl.endsWith('/') ? baseUrl : `${baseUrl}/`)
  const bytes: string[] = []
  for (const [name, value] of Object.entries(input.query ?? {})) {
    const text = String(value)
    if (value === undefined) continue
    // The parameters of a URL object are text; names of files may be other bytes.
    if (text.isWellFormed()) url.searchParams.set(name, text)
    else bytes.push(`${encodeURIComponent(name)}=${percentEncoded(text)}`)
  }
  if (bytes.length > 0) url.search = [url.search.slice(1), ...bytes].filter((part) => part !== '').join('&')
  return url.href
}

/** Reads an answer's envelope; throws the PanelError that it carries, or one that says that this is no panel daemon. */
export function readEnvelope(status: number, text: string): { data: unknown; pagination: Pagination | undefined } {
  const envelope = envelopeIn(parseJson(text))
  if (envelope === undefined) {
    throw new PanelError(
      codeForStatus(status),
      `The server answered ${status} without a panel envelope; is the URL right?`,
      {
        meta: { status },
      },
    )
  }
  if (envelope.success) return envelope
  const { error, code, details, meta, data, requestId } = envelope
  throw new PanelError(isErrorCode(code) ? code : codeForStatus(status), error, {
    meta: {
      ...meta,
      ...data,
      ...(requestId === undefined ? {} : { requestId }),
      ...(isErrorCode(code) ? {} : { code }),
    },
    ...(details === undefined ? {} : { details }),
  })
}

type Envelope =
  | { readonly success: true; readonly data: unknown; readonly pagination: Pagination | undefined }
  | {
      readonly success: false
      readonly error: string
      readonly code: string
      readonly details: readonly FieldProblem[] | undefined
      readonly meta: Readonly<Record<string, unknown>> | undefined
      /** Of a sign-in that wants a second factor. */
      readonly data: Readonly<Record<string, unknown>> | undefined
      readonly requestId: string | undefined
    }

/** The envelope of an answer, `undefined` when it is none. Checked by hand: whoever only asks loads no library for it. */
function envelopeIn(answer: unknown): Envelope | undefined {
  const fields = fieldsOf(answer)
  if (fields === undefined) return undefined
  if (fields['success'] === true) {
    const { data, pagination } = fields
    if (!('data' in fields) || (pagination !== undefined && !isPagination(pagination))) return undefined
    return { success: true, data, pagination: pagination === undefined ? undefined : counted(pagination) }
  }
  const { success, error, code, details, requestId } = fields
  const [meta, data] = [fieldsOf(fields['meta']), fieldsOf(fields['data'])]
  if (success !== false || typeof error !== 'string' || typeof code !== 'string') return undefined
  if (fields['meta'] !== undefined && meta === undefined) return undefined
  if (fields['data'] !== undefined && fields['data'] !== null && data === undefined) return undefined
  if (requestId !== undefined && typeof requestId !== 'string') return undefined
  if (details !== undefined && !isProblems(details)) return undefined
  const named = details?.map(({ field, message }) => ({ field, message }))
  return { success, error, code, details: named, meta, data, requestId }
}

function isPagination(value: unknown): value is Pagination {
  const fields = fieldsOf(value)
  if (fields === undefined) return false
  const { page, limit, total, totalPages, totalIsCapped } = fields
  return (
    [page, limit, total, totalPages].every(Number.isSafeInteger) &&
    (totalIsCapped === undefined || totalIsCapped === true)
  )
}

function counted({ page, limit, total, totalPages, totalIsCapped }: Pagination): Pagination {
  return { page, limit, total, totalPages, ...(totalIsCapped === undefined ? {} : { totalIsCapped }) }
}

function isProblems(value: unknown): value is readonly FieldProblem[] {
  return (
    Array.isArray(value) &&
    value.map(fieldsOf).every((one) => typeof one?.['field'] === 'string' && typeof one['message'] === 'string')
  )
}

function fieldsOf(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // the caller reports an answer that is no envelope
  }
}

/** The nearest code of ours for a status whose code this version does not know. */
function codeForStatus(status: number): ErrorCode {
  const byStatus: Record<number, ErrorCode> = {
    400: 'VALIDATION_ERROR',
    401: 'UNAUTHENTICATED',
    403: 'PERMISSION_DENIED',
    404: 'NOT_FOUND',
    409: 'CONFLICT',
    413: 'PAYLOAD_TOO_LARGE',
    429: 'RATE_LIMITED',
    502: 'SHUTTING_DOWN',
    503: 'SHUTTING_DOWN',
    504: 'AGENT_TIMEOUT',
  }
  return byStatus[status] ?? 'INTERNAL_ERROR'
}
