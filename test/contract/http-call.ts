import { type Dispatcher, FormData, request } from 'undici'
import { urlOf } from '../../src/shared/client.ts'
import type { Endpoint, StreamEndpoint } from '../../src/shared/kernel/contract.ts'

/** A request as bytes on the wire, so that tests can also send what a typed client never would. */
export interface Call {
  readonly method: string
  /** Path with query, or a whole URL. */
  readonly url: string
  readonly token?: string | undefined
  /** Sent as JSON, unless it is text: that is sent as it is. */
  readonly body?: unknown
  /** Sent as the file of a form. */
  readonly file?: Uint8Array | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** What came back. `json` is `undefined` when the body is no JSON. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: Body | undefined
}

/** The fields of our envelopes, none of which is there for certain. */
export interface Body {
  readonly success?: boolean
  readonly data?: unknown
  readonly pagination?: unknown
  readonly error?: unknown
  readonly code?: string
  readonly details?: readonly { readonly field: string; readonly message: string }[]
  readonly meta?: Readonly<Record<string, unknown>>
  readonly requestId?: string
}

/** The parts of an endpoint's input. */
export interface Parts {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  /** A file, in the place of a body. */
  readonly file?: Uint8Array
}

/** Sends it and reads the whole answer; an event stream is left after its headers. */
export async function send(call: Call): Promise<Reply> {
  const form = call.file === undefined ? undefined : formOf(call.file)
  const text = call.body === undefined || typeof call.body === 'string' ? call.body : JSON.stringify(call.body)
  const answer = await request(call.url, {
    method: call.method as Dispatcher.HttpMethod, // whatever it is, it goes out as it is
    headers: {
      ...(call.token === undefined ? {} : { authorization: `Bearer ${call.token}` }),
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    body: text ?? form ?? null,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
  })
  const { statusCode: status, body } = answer
  if (`${answer.headers['content-type']}`.startsWith('text/event-stream')) {
    body.on('error', () => undefined).destroy() // it is left on purpose
    return { status, headers: headersOf(answer.headers), text: '', json: undefined }
  }
  const received = await body.text()
  return {
    status,
    // Made when somebody looks: few of thousands do.
    get headers() {
      return headersOf(answer.headers)
    },
    text: received,
    json: parse(received),
  }
}

/** The method that reaches it. */
export function methodOf(endpoint: Endpoint | StreamEndpoint): string {
  return endpoint.kind === 'stream' ? 'GET' : endpoint.method
}

/** Calls an endpoint or stream with these parts. */
export function callEndpoint(
  base: string,
  endpoint: Endpoint | StreamEndpoint,
  parts: Parts,
  extra: Pick<Call, 'token' | 'headers'> = {},
): Promise<Reply> {
  return send({
    method: methodOf(endpoint),
    url: urlOf(endpoint, parts, base),
    body: parts.body,
    file: parts.file,
    ...extra,
  })
}

/** The whole input of a refusal's shape, for comparison: what stands beside the message. */
export function refusalOf({ status, json }: Reply): { status: number; code: string | undefined } {
  return { status, code: json?.code }
}

/** Whether it is an object of JSON, and no list. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function headersOf(raw: Dispatcher.ResponseData['headers']): Headers {
  const headers = new Headers()
  for (const [name, values] of Object.entries(raw))
    for (const value of [values].flat()) headers.append(name, value ?? '')
  return headers
}

function formOf(file: Uint8Array): FormData {
  const form = new FormData()
  form.set('file', new Blob([Uint8Array.from(file)]), 'a file')
  return form
}

function parse(text: string): Body | undefined {
  try {
    return JSON.parse(text) as Body // each field is looked at by an assertion
  } catch {
    return undefined // the assertions show the text
  }
}
