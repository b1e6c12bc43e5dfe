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

/** A body that is on its way. */
interface Arriving {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly bytesBefore: number
  /** Time in which we have not read on does not count against the client. */
  leftMs: number
}

/**
 * Cuts off requests whose bodies come too slowly, with 408: thousands of connections that drip a byte now and then cost their
 * client nothing, and this process memory and places. Uploads may take hours at a modest rate. A body is watched until it has
 * arrived, also when its request was answered before.
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
        const earnedMs = ((request.socket.bytesRead - body.bytesBefore) / LEAST_BYTES_PER_SECOND) * 1000
        if (body.leftMs + earnedMs > 0) continue
        arriving.delete(body)
        // What was answered before its body had come is not answered twice.
        if (response.headersSent) request.socket.destroy()
        else refuseConnection(request.socket, tooSlow())
      }
    }
    watching = false
  }
  let begun: Arriving[] = []
  /** Behind this turn of the event loop: most bodies come with their heads, and what is watched is kept for a second. */
  const takeIn = (): void => {
    for (const body of begun) if (!body.request.complete) arriving.add(body)
    begun = []
    if (arriving.size > 0 && !watching) void watch()
  }
  server.on('request', (request, response) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    if (encoding === undefined && (length === undefined || length === '0')) return
    if (begun.length === 0) setImmediate(takeIn)
    begun.push({ request, response, bytesBefore: request.socket.bytesRead, leftMs: BODY_GRACE_MS })
  })
}

/**
 * Ends connections whose last answer has come before the end of a body without a reset. Node closes them with bytes unread, which resets
 * them: a client that sends everything before it reads finds a broken connection, and never the answer. Here the answer and the end of
 * it are sent, and what still comes is dropped for a while.
 */
export function closeGently(server: Server, clock: Clock, stopping: AbortSignal): void {
  server.on('request', (request, response) => {
    const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
    if (encoding === undefined && (length === undefined || length === '0')) return
    const { socket } = request
    // How Node closes a connection when its last answer is written; the next request of the connection sets it anew.
    socket.destroySoon = () => {
      const close = (): void => Socket.prototype.destroySoon.call(socket)
      if (request.complete || !response.writableFinished) return close()
      socket.end()
      void dropRest(request, clock, stopping).then(close)
    }
  })
}

/** Answers what Node's parser refuses before there is a request, in the envelope of the API. */
export function refuseMalformed(error: Error & { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET') socket.destroy()
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
