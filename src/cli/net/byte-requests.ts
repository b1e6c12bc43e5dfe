import { Readable } from 'node:stream'
import type { Dispatcher, request as send } from 'undici'
import type { Fetch } from '../../shared/client.ts'
import { wholeText } from './whole-text.ts'

/** What of undici is used, which is loaded when it is needed. */
interface Ways {
  readonly request: typeof send
  readonly dispatcher: Dispatcher
}

/**
 * One request by undici's `request`, with bodies of any length in both directions; it fails as `fetch` does. undici's own `fetch` keeps all
 * of a body that it sends piece by piece until the last one is sent: an upload of 5 GiB took 12 GiB of memory and four times as long.
 */
export async function requestBytes(
  url: string,
  { method, headers, body, signal }: Parameters<Fetch>[1],
  { request, dispatcher }: Ways,
): ReturnType<Fetch> {
  const answer = await request(url, {
    dispatcher,
    method: method as Dispatcher.HttpMethod, // of a contract
    headers,
    ...(body === undefined ? {} : { body: wholeOrStream(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((cause: unknown) => {
    throw signal?.aborted === true ? signal.reason : new TypeError('fetch failed', { cause })
  })
  answer.body.on('error', () => {}) // its reader sees it
  const arriving = bytesOf(answer.body, signal)
  return {
    status: answer.statusCode,
    headers: {
      get: (name) => {
        const value = answer.headers[name.toLowerCase()]
        return Array.isArray(value) ? value.join(', ') : (value ?? null)
      },
    },
    body: arriving,
    text: () => wholeText(arriving),
  }
}

type Body = NonNullable<Parameters<Fetch>[1]['body']>

function wholeOrStream(body: Body): string | Uint8Array | Readable {
  return typeof body === 'string' || body instanceof Uint8Array ? body : Readable.from(body, { objectMode: false })
}

async function* bytesOf(
  body: Dispatcher.ResponseData['body'],
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  try {
    yield* body
  } catch (cause) {
    throw signal?.aborted === true ? signal.reason : new TypeError('terminated', { cause })
  }
}
