import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { ERRORS, PanelError } from '../../shared/kernel/errors.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { dropRest } from './byte-stream.ts'
import { errorBody } from './errors.ts'
import { ANSWER_HEADERS } from './headers.ts'

/** How long the head of a request may take, and a TLS handshake. */
export const HEAD_MS = 20_000
/** How often Node looks for heads that take longer. */
export const HEAD_CHECK_MS = 5_000

/** A body may take this long, and a second more for each so many bytes that have come: 4 KiB/s is a bad mobile line. */
const BODY_GRACE_MS = 15_000
const LEAST_BYTES_PER_SECOND = 4096
const BODY_CHECK_MS = 1_000
/** So much of a body is taken after its answer, and for so long: nobody needs it any more but a client that sends all before it reads. */
const REST_BYTES = 256 * 1024 * 1024
const REST_MS = 600_000

/** A body that is on its way. */
interface Arriving {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bytesBefore: number
  /** Time in which we have not read on does not count against the client. */
  leftMs: number
  /** Where it stood when its answer was sent, and how long that is ago. */
  rest: { readonly bytesBefore: number; ageMs: number } | undefined
}

/**
 * Cuts off requests whose bodies come too slowly, with 408: thousands of connections that drip a byte now and then cost their
 * client nothing, and this process memory and places. Uploads may take hours at a modest rate. A body is watched until it has
 * arrived, also when its request was answered before: then it is cut off as well when its rest is too long or takes too long.
 */
export function cutSlowBodies(server: Server, clock: Clock, stopping: AbortSignal): void {
  const arriving = new Set<Arriving>()
  let watching = false
  const watch = async (): Promise<void> => {
    watching = true
    while (arriving.size > 0 && !stopping.aborted) {
      const before = clock.monotonicMs()
      await clock.sleep(BODY_CHECK_MS, stopping)
      const elapsed = clock.monotonicMs() - before
      for (const body of arriving) {
        const { request, response } = body
        if (request.complete || request.socket.destroyed) {
          arriving.delete(body)
          continue
        }
        if (request.readableLength === 0) body.leftMs -= elapsed
        const { bytesRead } = request.socket
        const earnedMs = ((bytesRead - body.bytesBefore) / LEAST_BYTES_PER_SECOND) * 1000
        if (response.writableFinished) body.rest ??= { bytesBefore: bytesRead, ageMs: -elapsed }
        if (body.rest !== undefined) body.rest.ageMs += elapsed
        if (body.leftMs + earnedMs > 0 && !isTooMuch(body.rest, bytesRead)) continue
        arriving.delete(body)
        // What was answered before its body had come is not answered twice.
        if (response.headersSent) request.socket.destroy()
        else refuseConnection(request.socket, tooSlow())
      }
    }
    watching = false
  }
  onBody(server, {
    behind: (request, response) => {
      arriving.add({
        ...{ request, response, bytesBefore: request.socket.bytesRead },
        ...{ leftMs: BODY_GRACE_MS, rest: undefined },
      })
      if (!watching) void watch()
    },
  })
}

/** What is done about the body of a request: at once, and when it was not there with the head. */
interface BodyWork {
  at?(request: IncomingMessage, response: ServerResponse): void
  behind(request: IncomingMessage, response: ServerResponse): void
}

/**
 * Calls for each request with a body. Most bodies come with their heads, and who held on to all of them would have V8 keep each until
 * all of the heap is collected: `behind` is called behind this turn of the event loop, for those that are still on their way.
 */
function onBody(server: Server, { at, behind }: BodyWork): void {
  let begun: { readonly request: IncomingMessage; readonly response: ServerResponse }[] = []
  const look = (): void => {
    const all = begun
    begun = []
    for (const { request, response } of all) if (!request.complete) behind(request, response)
  }
  server.on('request', (request, response) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    if (encoding === undefined && (length === undefined || length === '0')) return
    at?.(request, response)
    if (begun.length === 0) setImmediate(look)
    begun.push({ request, response })
  })
}

function isTooMuch(rest: Arriving['rest'], bytesRead: number): boolean {
  return rest !== undefined && (rest.ageMs > REST_MS || bytesRead - rest.bytesBefore > REST_BYTES)
}

/**
 * Reads on where the answer has come before the end of a body. Node closes connections with bytes unread, or leaves these where they
 * are, which resets them: a client that sends everything before it reads finds a broken connection, and never the answer. Here the answer
 * is sent, of a last one also its end, and what still comes is dropped within the limits of {@link cutSlowBodies}.
 */
export function closeGently(server: Server, stopping: AbortSignal): void {
  onBody(server, {
    at: (request, response) => {
      const { socket } = request
      // How Node closes a connection when its last answer is written; the next request of the connection sets it anew.
      socket.destroySoon = () => {
        socket.destroySoon = Socket.prototype.destroySoon
        const close = (): void => socket.destroySoon()
        if (request.complete || !response.writableFinished) return close()
        socket.end()
        void dropRest(request, stopping).then(close)
      }
    },
    behind: (request, response) => {
      const drop = (): void => void dropRest(request, stopping)
      if (response.writableFinished) drop()
      else response.once('finish', drop)
    },
  })
}

/** The answer that Node is writing to a connection, by the name that its own refusal of malformed requests looks at. */
type Answering = Socket & { readonly _httpMessage?: ServerResponse | null }

/**
 * Answers what Node's parser refuses before there is a request, in the envelope of the API. A client that has begun to read another
 * answer would take a refusal for a part of it: then the connection is cut.
 */
export function refuseMalformed(error: Error & { readonly code?: string }, socket: Answering): void {
  if (error.code === 'ECONNRESET' || socket._httpMessage?.headersSent === true) socket.destroy()
  else refuseConnection(socket, malformed(error.code))
}

function malformed(code: string | undefined): PanelError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return tooSlow()
  const message =
    code === 'HPE_HEADER_OVERFLOW' ? 'The headers of the request are too large' : 'The request is not valid HTTP'
  return new PanelError('VALIDATION_ERROR', message)
}

function tooSlow(): PanelError {
  return new PanelError('REQUEST_TIMEOUT', 'The request came too slowly and was given up; send it again')
}

/** Ends a connection with a refusal. */
function refuseConnection(socket: Socket, error: PanelError): void {
  const { status } = ERRORS[error.code]
  const { requestId: _, ...refusal } = errorBody(error, '') // there is no request yet
  const body = JSON.stringify(refusal)
  const headers = Object.entries({
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    ...ANSWER_HEADERS,
    connection: 'close',
  })
  const head = [
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Refused'}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ]
  if (socket.writable) socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  socket.destroy()
}

const REASONS: Readonly<Record<number, string>> = { 400: 'Bad Request', 408: 'Request Timeout' }
