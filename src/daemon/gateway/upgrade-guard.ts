import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { ERRORS, PanelError } from '../../shared/kernel/errors.ts'
import { newIdSuffix } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { GATEWAY_PATH, NODE_ID_HEADER, NODE_KEY_HEADER, SUBPROTOCOL } from '../../shared/protocol/frames.ts'
import { ANSWER_HEADERS } from '../http/headers.ts'
import { AttemptLimiter } from './attempts.ts'

/**
 * Whether a node may come in with a key: `unknown` for an unknown node and for a wrong key alike. It is asked for every
 * attempt, however many there are, so it must cost no more than a hash.
 */
export type VerifyNode = (nodeId: string, key: string) => Promise<'ok' | 'unknown' | 'disabled'>

const NODE_ID = /^[A-Za-z0-9_-]{1,64}$/
const MOST_KEY_CHARS = 200

interface UpgradeGuardOptions {
  readonly verify: VerifyNode
  readonly clock: Clock
  /** The address that attempts are counted by; behind a proxy the one that the proxy names. */
  readonly addressOf: (request: IncomingMessage) => string
}

/**
 * Decides who gets in before the 101. Only the two node headers count: sessions, API keys and cookies are not looked at, and
 * a request with an Origin comes from a browser and is refused.
 */
export class UpgradeGuard {
  readonly #options: UpgradeGuardOptions
  readonly #attempts: AttemptLimiter

  constructor(options: UpgradeGuardOptions) {
    this.#options = options
    this.#attempts = new AttemptLimiter(options.clock)
  }

  /** The id of the node that has proved itself; throws the refusal as a PanelError. */
  async admit(request: IncomingMessage): Promise<string> {
    checkRequest(request)
    return await this.identify(request, this.#options.addressOf(request))
  }

  /** The id of the node whose credentials a request carries; throws the refusal as a PanelError. */
  async identify(request: Pick<IncomingMessage, 'headers'>, address: string): Promise<string> {
    const nodeId = header(request, NODE_ID_HEADER)
    const key = header(request, NODE_KEY_HEADER)
    const verdict = await this.#verify(nodeId, key)
    // Before the limit: what others guess from the node's address must not keep out the agent that has the key.
    if (verdict === 'ok') {
      this.#attempts.succeeded(address, nodeId)
      return nodeId
    }
    if (verdict === 'disabled') throw new PanelError('NODE_DISABLED', 'This node is disabled')
    const waitSeconds = this.#attempts.waitSeconds(address, nodeId)
    if (waitSeconds > 0) throw tooMany(waitSeconds)
    this.#attempts.failed(address, nodeId)
    throw unauthenticated()
  }

  async #verify(nodeId: string, key: string): ReturnType<VerifyNode> {
    if (!NODE_ID.test(nodeId) || key === '' || key.length > MOST_KEY_CHARS) return 'unknown'
    return await this.#options.verify(nodeId, key)
  }
}

/** Answers an upgrade request with a refusal in the envelope of the API, and closes the connection. */
export function refuse(socket: Duplex, error: PanelError, clock: Clock): void {
  const { status } = ERRORS[error.code]
  const requestId = `req_${newIdSuffix(clock)}`
  const body = JSON.stringify({ success: false, error: error.message, code: error.code, meta: error.meta, requestId })
  const retryAfter = error.meta['retryAfterSeconds']
  const lines = [
    `HTTP/1.1 ${status} ${REASONS[status] ?? 'Refused'}`,
    'Content-Type: application/json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...Object.entries(ANSWER_HEADERS).map(([name, value]) => `${name}: ${value}`),
    ...(typeof retryAfter === 'number' ? [`Retry-After: ${retryAfter}`] : []),
    ...(status === 426 ? [`Sec-WebSocket-Protocol: ${SUBPROTOCOL}`] : []),
    'Connection: close',
    '',
    body,
  ]
  socket.once('finish', () => socket.destroy())
  socket.end(lines.join('\r\n'))
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
}

function checkRequest(request: IncomingMessage): void {
  const path = (request.url ?? '').split('?', 1)[0]
  if (path !== GATEWAY_PATH) throw new PanelError('NOT_FOUND', 'There is no WebSocket at this path')
  if (request.headers.origin !== undefined) {
    throw new PanelError('PERMISSION_DENIED', 'This route is for node agents and not for browsers')
  }
  if (request.method !== 'GET' || request.headers.upgrade?.toLowerCase() !== 'websocket') {
    throw new PanelError('VALIDATION_ERROR', 'This route takes WebSocket connections of node agents')
  }
  const offered = header(request, 'sec-websocket-protocol')
    .split(',')
    .map((name) => name.trim())
  const versions = offered.filter((name) => name.startsWith('panel-agent.'))
  if (versions.length > 0 && !versions.includes(SUBPROTOCOL)) {
    throw new PanelError('AGENT_VERSION', `This daemon speaks ${SUBPROTOCOL}; update the agent or the daemon`, {
      meta: { supported: [SUBPROTOCOL] },
    })
  }
}

function unauthenticated(): PanelError {
  return new PanelError('UNAUTHENTICATED', 'The node is unknown or its key is wrong')
}

function tooMany(seconds: number): PanelError {
  return new PanelError('RATE_LIMITED', `Too many attempts; try again in ${seconds} s`, {
    meta: { retryAfterSeconds: seconds },
  })
}

function header(request: Pick<IncomingMessage, 'headers'>, name: string): string {
  const value = request.headers[name]
  return typeof value === 'string' ? value : ''
}
