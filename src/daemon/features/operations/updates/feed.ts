import { z } from 'zod'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { versionIn } from './version-order.ts'

/** The newest release that a feed announces. */
export interface Release {
  readonly version: string
  readonly releaseUrl: string | null
  readonly publishedAt: IsoTime | null
}

/** Why a feed could not be read, as a sentence for people. */
export class FeedError extends Error {
  override readonly name = 'FeedError'
}

const TIMEOUT_MS = 5000
const MOST_BYTES = 4 * 1024 * 1024

const text = z.string().max(2000)
/** The document of a package in an npm registry, one version of it, or a release of a forge. */
const Feed = z.union([
  z
    .object({ 'dist-tags': z.object({ latest: text }), time: z.record(z.string(), z.unknown()).optional() })
    .transform((found) => {
      const version = found['dist-tags'].latest
      return { version, url: undefined, published: found.time?.[version] }
    }),
  z
    .object({ tag_name: text, html_url: text.optional(), published_at: text.nullish() })
    .transform((found) => ({ version: found.tag_name, url: found.html_url, published: found.published_at })),
  z
    .object({ version: text, releaseUrl: text.nullish(), publishedAt: text.nullish() })
    .transform((found) => ({ version: found.version, url: found.releaseUrl, published: found.publishedAt })),
])

/** Asks the feed for the newest release. Rejects with FeedError, at the latest after five seconds. */
export async function readFeed(url: string, options: { clock: Clock; signal: AbortSignal }): Promise<Release> {
  const late = new AbortController()
  const done = new AbortController()
  void options.clock.sleep(TIMEOUT_MS, done.signal).then(() => {
    if (!done.signal.aborted) late.abort()
  })
  try {
    return releaseOf(await fetchText(url, AbortSignal.any([late.signal, options.signal])))
  } catch (error) {
    if (error instanceof FeedError) throw error
    if (late.signal.aborted) throw new FeedError(`the update feed did not answer within ${TIMEOUT_MS / 1000} s`)
    throw new FeedError(`the update feed could not be read: ${reasonOf(error)}`)
  } finally {
    done.abort()
  }
}

async function fetchText(url: string, signal: AbortSignal): Promise<string> {
  // A redirect would lead to where nobody has configured it to.
  const response = await fetch(url, { signal, redirect: 'error', headers: { accept: 'application/json' } })
  if (!response.ok) {
    await response.body?.cancel()
    throw new FeedError(`the update feed answered with status ${response.status}`)
  }
  return response.body === null ? '' : await textOf(response.body, signal)
}

/**
 * Looks at the signal itself: what `fetch` keeps of it goes with the next collection of garbage (Node 20), and a feed that
 * sends a byte now and then would be read for ever.
 */
async function textOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): Promise<string> {
  const reader = body.getReader()
  const end = (): void => void reader.cancel().catch(() => undefined) // it may have failed by itself
  signal.addEventListener('abort', end, { once: true })
  try {
    const decoder = new TextDecoder()
    let text = ''
    let bytes = 0
    for (;;) {
      signal.throwIfAborted()
      const { done, value } = await reader.read()
      signal.throwIfAborted()
      if (done) return text + decoder.decode()
      bytes += value.byteLength
      if (bytes > MOST_BYTES) throw new FeedError('the update feed answered more than 4 MiB')
      text += decoder.decode(value, { stream: true })
    }
  } finally {
    signal.removeEventListener('abort', end)
    end()
  }
}

function releaseOf(body: string): Release {
  let json: unknown
  try {
    json = JSON.parse(body)
  } catch {
    throw new FeedError('the update feed did not answer JSON')
  }
  const found = Feed.safeParse(json)
  const version = found.success ? versionIn(found.data.version) : undefined
  if (!found.success || version === undefined) throw new FeedError('the update feed names no version')
  return { version, releaseUrl: webAddress(found.data.url), publishedAt: instant(found.data.published) }
}

/** An address that a click on it may lead to, as browsers read it; with a name before the host it would pass for another one. */
function webAddress(text: string | null | undefined): string | null {
  const url = URL.parse(text ?? '')
  return url?.protocol === 'https:' && url.username === '' && url.password === '' ? url.href : null
}

function instant(published: unknown): IsoTime | null {
  const ms = typeof published === 'string' ? Date.parse(published) : Number.NaN
  // Other years have more digits than a time may have.
  return ms >= FIRST_MS && ms <= LAST_MS ? isoTime(ms) : null
}

const FIRST_MS = Date.parse('0000-01-01T00:00:00Z')
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z')

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return 'code' in cause && typeof cause.code === 'string' && cause.message === '' ? cause.code : cause.message
}
