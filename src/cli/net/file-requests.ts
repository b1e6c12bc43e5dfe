import type { Dispatcher, request } from 'undici'
import type { Fetch } from '../../shared/client.ts'

/** How bytes are sent: undici's `request`, and the connections it uses. */
export interface FileRequests {
  readonly request: typeof request
  readonly dispatcher: Dispatcher
}

/**
 * A request whose body may be of any length in both directions. It is not undici's `fetch`, which keeps what it has sent of a body for
 * the case of a redirection; it fails as that does: with a `TypeError`, or the reason of the signal. Redirections are answers.
 */
export async function sendBytes(
  { request, dispatcher }: FileRequests,
  url: string,
  { method, headers, body, signal }: Parameters<Fetch>[1],
): ReturnType<Fetch> {
  const failed = (message: string, cause: unknown): unknown =>
    signal?.aborted === true ? signal.reason : new TypeError(message, { cause })
  try {
    const answer = await request(url, {
      dispatcher,
      method: method as Dispatcher.HttpMethod, // those of the contract
      headers,
      body: (body ?? null) as string | Uint8Array | null, // its types do not know that it sends iterables as well
      ...(signal === undefined ? {} : { signal }),
    })
    return {
      status: answer.statusCode,
      headers: { get: (name) => answer.headers[name.toLowerCase()]?.toString() ?? null },
      body: arriving(answer.body, (cause) => failed('terminated', cause)),
      text: () => answer.body.text(),
    }
  } catch (cause) {
    throw failed('fetch failed', cause)
  }
}

async function* arriving(
  body: AsyncIterable<Uint8Array>,
  failure: (cause: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of body) yield piece
  } catch (cause) {
    throw failure(cause)
  }
}
