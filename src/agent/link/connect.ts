import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type ClientOptions, WebSocket } from 'ws'
import {
  GATEWAY_LIMITS,
  GATEWAY_PATH,
  NODE_ID_HEADER,
  NODE_KEY_HEADER,
  SUBPROTOCOL,
} from '../../shared/protocol/frames.ts'
import { connectPlain, type DaemonTrust } from './daemon-connection.ts'
import { httpUrl } from './daemon-url.ts'

/** Where and as whom the agent connects. */
export interface ConnectTarget extends DaemonTrust {
  /** The daemon's address: `https://panel.example` or `http://127.0.0.1:7420`. */
  readonly url: string
  readonly nodeId: string
  readonly nodeKey: string
  /** Stands in for the network: the embedded agent hands in one end of a stream pair. */
  readonly createConnection?: () => Duplex
}

/** Why the daemon did not answer with 101. */
export interface Refusal {
  readonly status: number
  readonly retryAfterMs: number | null
}

/** The daemon refused the upgrade over HTTP. */
export class ConnectRefused extends Error {
  override readonly name = 'ConnectRefused'
  readonly refusal: Refusal

  constructor(refusal: Refusal) {
    super(`The daemon answered ${refusal.status}`)
    this.refusal = refusal
  }
}

/** An open WebSocket and the stream below it. */
export interface Connection {
  readonly socket: WebSocket
  readonly stream: Duplex
}

/** Opens the WebSocket. Rejects with {@link ConnectRefused} when the daemon refuses, else with the network's error. */
export function connect(target: ConnectTarget, signal: AbortSignal): Promise<Connection> {
  const socket = new WebSocket(gatewayUrl(target.url), SUBPROTOCOL, socketOptions(target))
  return new Promise((resolve, reject) => {
    const abort = (): void => socket.terminate()
    const settle = (): void => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)
    socket.once('upgrade', (response) => {
      socket.once('open', () => {
        settle()
        resolve({ socket, stream: response.socket })
      })
    })
    socket.once('unexpected-response', (request, response) => {
      settle()
      reject(new ConnectRefused(refusalOf(response)))
      request.destroy()
    })
    socket.once('error', (error) => {
      settle()
      reject(error)
    })
    // Errors after the opening are followed by a close, which is where they are dealt with.
    socket.on('error', () => {})
  })
}

function gatewayUrl(url: string): URL {
  const gateway = new URL(GATEWAY_PATH, url)
  gateway.protocol = gateway.protocol === 'https:' ? 'wss:' : 'ws:'
  return gateway
}

function socketOptions(target: ConnectTarget): ClientOptions {
  const options: ClientOptions = {
    headers: { [NODE_ID_HEADER]: target.nodeId, [NODE_KEY_HEADER]: target.nodeKey },
    handshakeTimeout: 10_000,
    perMessageDeflate: false,
    maxPayload: GATEWAY_LIMITS.maxFrameBytes,
    // A redirect could carry the node's key to another host.
    followRedirects: false,
  }
  if (target.ca !== undefined) options.ca = target.ca
  const { createConnection } = target
  if (createConnection !== undefined) {
    // `ws` and `http` use nothing of a Socket that a Duplex has not.
    options.createConnection = () => createConnection() as Socket
  } else if (/^(?:http|ws):/i.test(target.url)) {
    options.createConnection = connectingBy(() => connectPlain(httpUrl(target.url, '/'), target))
  }
  return options
}

/** `http` takes a connection that comes later by its second argument, which the type of `ws` does not show. */
function connectingBy(open: () => Promise<Socket>): NonNullable<ClientOptions['createConnection']> {
  const later = (_: unknown, done: (error: Error | null, socket?: Socket) => void): undefined => {
    open().then(
      (socket) => done(null, socket),
      (error: Error) => done(error),
    )
  }
  return later as Partial<NonNullable<ClientOptions['createConnection']>> as NonNullable<
    ClientOptions['createConnection']
  > // see above
}

function refusalOf(response: IncomingMessage): Refusal {
  const seconds = Number(response.headers['retry-after'])
  const known = response.headers['retry-after'] !== undefined && Number.isFinite(seconds) && seconds >= 0
  return { status: response.statusCode ?? 0, retryAfterMs: known ? seconds * 1000 : null }
}
