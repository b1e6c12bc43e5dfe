import type { IncomingMessage, ServerResponse } from 'node:http'

/** One request as it came, to the panel, to a node or to the object store. */
export interface LoggedRequest {
  readonly n: number
  readonly atMs: number
  /** `panel`, `wings:<id of the node>` or `s3`. */
  readonly to: string
  readonly method: string
  /** Without what signs it. */
  readonly path: string
  readonly query: string
  /** Whether a key or a token of the panel or of a node came with it. */
  readonly hasCredentials: boolean
  /** What was sent to be changed, as JSON of up to 2000 characters; `null`: nothing was. */
  body: string | null
  /** 0: it was cut off without an answer. */
  status: number
  /** It came before the time was over for which the panel had asked to be left alone. */
  early: boolean
}

const SIGNS = ['token', 'X-Amz-Signature']

/** Writes a request down; its status once it is answered. */
export function logRequest(
  log: LoggedRequest[],
  to: string,
  request: IncomingMessage,
  response: ServerResponse,
): LoggedRequest {
  const url = new URL(request.url ?? '/', 'http://source')
  for (const name of SIGNS) if (url.searchParams.has(name)) url.searchParams.set(name, '…')
  const entry: LoggedRequest = {
    n: log.length + 1,
    atMs: Date.now(),
    to,
    method: request.method ?? '',
    path: url.pathname,
    query: decodeURIComponent(url.search),
    hasCredentials: request.headers.authorization !== undefined || request.headers.cookie !== undefined,
    body: null,
    status: 0,
    early: false,
  }
  log.push(entry)
  response.once('finish', () => {
    entry.status = response.statusCode
  })
  return entry
}
