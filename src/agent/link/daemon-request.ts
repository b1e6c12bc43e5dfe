import { type ClientRequest, type IncomingMessage, type RequestOptions, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import type { Socket } from 'node:net'
import { TRANSFER_LIMITS } from '../../shared/protocol/files.ts'
import { NODE_ID_HEADER, NODE_KEY_HEADER } from '../../shared/protocol/frames.ts'
import type { ConnectTarget } from './connect.ts'
import { connectPlain } from './daemon-connection.ts'
import { httpUrl } from './daemon-url.ts'

/** One request over HTTP to the daemon. */
export interface DaemonRequest {
  readonly method: 'GET' | 'PUT' | 'POST'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly signal: AbortSignal
}

/** Begins a request with the node's own credentials, the way that the node is connected; what moves nothing for 30 s is given up. */
export function openRequest(target: ConnectTarget, { method, path, headers, signal }: DaemonRequest): ClientRequest {
  const url = httpUrl(target.url, path)
  const credentials = { [NODE_ID_HEADER]: target.nodeId, [NODE_KEY_HEADER]: target.nodeKey }
  const options: RequestOptions = { method, headers: { ...credentials, ...headers }, signal, agent: false }
  const { createConnection } = target
  // `http` uses nothing of a Socket that a Duplex has not, and takes a connection that comes later by the second argument.
  if (createConnection !== undefined) options.createConnection = () => createConnection() as Socket
  else if (url.protocol === 'http:') {
    options.createConnection = (_, done) => {
      connectPlain(url, target).then(
        (socket) => done(null, socket),
        (error: Error) => done(error, undefined as never), // as `http` itself calls it
      )
      return undefined
    }
  }
  const secure = createConnection === undefined && url.protocol === 'https:'
  const request = secure
    ? requestSecure(url, { ...options, ...(target.ca === undefined ? {} : { ca: target.ca }) })
    : requestPlain(url, options)
  request.setTimeout(TRANSFER_LIMITS.stallMs, () => request.destroy(new Error('Nothing moved for 30 s')))
  return request
}

/** The head of the answer; rejects when there is none. */
export function answerOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    request.once('error', reject)
    request.on('error', () => {}) // what follows the first one says nothing more
  })
}
