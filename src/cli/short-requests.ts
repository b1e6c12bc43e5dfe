import { Agent, type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure, Agent as SecureAgent } from 'node:https'
import { text } from 'node:stream/consumers'
import type { SecureContext } from 'node:tls'
import type { Fetch } from '../shared/client.ts'
import { followed } from './redirections.ts'

/** How to connect. */
export interface ConnectOptions {
  /** Whose signatures are trusted; those of Node when absent. */
  readonly secureContext?: SecureContext
  readonly rejectUnauthorized?: boolean
  /** Milliseconds that a connection may take to be ready. */
  readonly timeout: number
}

/** Requests whose answers are read whole. */
export interface ShortRequests {
  readonly fetch: Fetch
  close(): void
}

/**
 * Requests over Node's own HTTP client, which is there at once: to load undici takes longer than most commands run. They
 * fail as undici's `fetch` does.
 */
export function createShortRequests({ timeout, ...tls }: ConnectOptions): ShortRequests {
  const plain = new Agent({ keepAlive: true })
  const secure = new SecureAgent({ keepAlive: true, ...tls })
  const fetch: Fetch = (url, init) =>
    followed(url, init.method, (here) =>
      sent(here, init, { plain, secure, timeout }).catch((cause: unknown) => {
        throw init.signal?.aborted === true ? init.signal.reason : new TypeError('fetch failed', { cause })
      }),
    )
  return {
    fetch,
    close: () => {
      plain.destroy()
      secure.destroy()
    },
  }
}

function sent(
  url: string,
  { method, headers, body, signal }: Parameters<Fetch>[1],
  { plain, secure, timeout }: { readonly plain: Agent; readonly secure: SecureAgent; readonly timeout: number },
): ReturnType<Fetch> {
  return new Promise((resolve, reject) => {
    const isSecure = new URL(url).protocol === 'https:'
    const options = { method, headers, ...(signal === undefined ? {} : { signal }) }
    const request = isSecure
      ? requestSecure(url, { ...options, agent: secure })
      : requestPlain(url, { ...options, agent: plain })
    request.once('error', reject)
    request.once('socket', (socket) => {
      if (!socket.connecting) return
      const late = setTimeout(() => {
        request.destroy(Object.assign(new Error('the host does not answer'), { code: 'ETIMEDOUT' }))
      }, timeout)
      socket.once(isSecure ? 'secureConnect' : 'connect', () => clearTimeout(late))
      socket.once('close', () => clearTimeout(late))
    })
    request.once('response', (response) => resolve(answerOf(response)))
    request.end(body)
  })
}

async function answerOf(response: IncomingMessage): ReturnType<Fetch> {
  const whole = await text(response)
  return {
    status: response.statusCode ?? 0,
    headers: {
      get: (name) => {
        const value = response.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : (value ?? null)
      },
    },
    text: () => Promise.resolve(whole),
  }
}
