import { CliFailure } from '../kit/failure.ts'

/** The part of an answer that says where to go instead. */
interface Answer {
  readonly status: number
  readonly headers: { get(name: string): string | null }
}

const MOST_HOPS = 5
const REDIRECTIONS = new Set([301, 302, 303, 307, 308])

/**
 * Sends a request and follows redirections within the panel's own origin. Another origin is refused and named: neither a
 * credential nor a password in a body goes where the person did not send it. So is one that would turn a write into a read.
 */
export async function followed<A extends Answer>(
  url: string,
  method: string,
  send: (url: string) => Promise<A>,
): Promise<A> {
  let here = url
  for (let hops = 0; ; hops++) {
    const answer = await send(here)
    const location = REDIRECTIONS.has(answer.status) ? answer.headers.get('location') : null
    if (location === null) return answer
    if (hops === MOST_HOPS) throw refused(here, `it redirects more than ${MOST_HOPS} times`)
    here = nextUrl(here, location, { method, status: answer.status })
  }
}

function nextUrl(here: string, location: string, sent: { readonly method: string; readonly status: number }): string {
  if (!URL.canParse(location, here)) throw refused(here, `it redirects to '${location}', which is no URL`)
  const next = new URL(location, here)
  const { origin } = new URL(here)
  if (next.origin !== origin) {
    throw refused(here, `it redirects to ${next.origin}`, `panel login ${next.origin}, or --url ${next.origin}`)
  }
  if (sent.method !== 'GET' && sent.status !== 307 && sent.status !== 308) {
    throw refused(here, `it answers ${sent.method} with a redirection to ${next.pathname}; nothing was done`)
  }
  return next.href
}

function refused(url: string, reason: string, hint = 'look at the proxy in front of the panel'): CliFailure {
  return new CliFailure('UNREACHABLE', `${new URL(url).origin} does not answer as a panel: ${reason}`, { hint })
}
