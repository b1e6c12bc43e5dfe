import { isIP, type LookupFunction } from 'node:net'
import type { Agent } from 'undici'
import type { Clock } from '../../../../shared/kernel/time.ts'
import { isReachable } from '../../../../shared/platform/public-address.ts'
import type { Settings } from '../../../core/settings.ts'
import { createNameLookup } from './name-lookup.ts'
import { hostOf } from './target-url.ts'

/** What became of one attempt. */
export interface Outcome {
  readonly ok: boolean
  readonly durationMs: number
  readonly status: number | null
  readonly error: string | null
  /** The beginning of the answer. */
  readonly response: string | null
  /** Another attempt would not help. */
  readonly final: boolean
  /** How long the other side wants to be left alone. */
  readonly retryAfterMs: number | null
}

/** A request as it goes out. */
export interface OutRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Posts to the outside, and nowhere else. */
export interface Sender {
  /** One attempt; failures are outcomes. Ends after 10 s. */
  post(wanted: OutRequest, signal: AbortSignal): Promise<Outcome>
  close(): Promise<void>
}

const TIMEOUT_MS = 10_000
const EXCERPT_BYTES = 1024
const MOST_RETRY_AFTER_MS = 3_600_000

class AddressRefused extends Error {
  override readonly name = 'AddressRefused'
  constructor(host: string) {
    super(`${host} is a private or reserved address, where webhooks do not go; webhooks.allowedRanges can allow it`)
  }
}

/**
 * A sender that connects to the very address it has checked, so that a name cannot change its meaning in between, and
 * follows no redirect, which could lead anywhere.
 */
export function createSender({ settings, clock }: { readonly settings: Settings; readonly clock: Clock }): Sender {
  const namesToAddresses = createNameLookup()
  const mayReach = (address: string): boolean => isReachable(address, settings.get('webhooks.allowedRanges'))

  const lookup: LookupFunction = (host, options, done) => {
    namesToAddresses(host).then(
      (found) => {
        const addresses = found.filter(mayReach).map((address) => ({ address, family: isIP(address) }))
        const [first] = addresses
        if (first === undefined) done(new AddressRefused(host), '', 0)
        else if (options.all === true) done(null, addresses)
        else done(null, first.address, first.family)
      },
      (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), '', 0),
    )
  }
  let connections: Agent | undefined

  async function send({ url, headers, body }: OutRequest, signal: AbortSignal) {
    const host = hostOf(new URL(url))
    // An address that stands in the URL itself is not looked up.
    if (isIP(host) !== 0 && !mayReach(host)) throw new AddressRefused(host)
    // Loaded here, because most panels never need it.
    const { Agent, request } = await import('undici')
    const connect = { lookup, timeout: TIMEOUT_MS }
    connections ??= new Agent({ connect, keepAliveTimeout: 10_000, connections: 2 })
    const answer = await request(url, { method: 'POST', headers, body, signal, dispatcher: connections })
    const response = await excerptOf(answer.body)
    return { status: answer.statusCode, response, retryAfter: answer.headers['retry-after'] }
  }

  return {
    post: async (wanted, stopping) => {
      const begun = clock.monotonicMs()
      const took = (): number => Math.round(clock.monotonicMs() - begun)
      const late = new AbortController()
      const done = new AbortController()
      void clock.sleep(TIMEOUT_MS, done.signal).then(() => late.abort())
      try {
        const signal = AbortSignal.any([late.signal, stopping])
        const { status, response, retryAfter } = await send(wanted, signal)
        return answered(status, response, {
          durationMs: took(),
          retryAfterMs: waitOf(String(retryAfter ?? ''), clock.nowMs()),
        })
      } catch (error) {
        stopping.throwIfAborted()
        const text = late.signal.aborted ? `no answer within ${TIMEOUT_MS / 1000} s` : messageOf(error)
        return { ...NOTHING, ok: false, durationMs: took(), error: text }
      } finally {
        done.abort()
      }
    },
    close: async () => connections?.destroy(),
  }
}

const NOTHING = { status: null, error: null, response: null, final: false, retryAfterMs: null } as const

function answered(
  status: number,
  response: string | null,
  { durationMs, retryAfterMs }: Pick<Outcome, 'durationMs' | 'retryAfterMs'>,
): Outcome {
  if (status >= 200 && status < 300) return { ...NOTHING, ok: true, durationMs, status, response }
  const redirected = status >= 300 && status < 400
  const error = redirected ? `HTTP ${status}: redirects are not followed` : `HTTP ${status}`
  // 410: the other side says that it is gone for good.
  return { ok: false, durationMs, status, response, error, final: status === 410, retryAfterMs }
}

/** What `Retry-After` asks for, which is seconds or a date; `null` when it asks for nothing. */
function waitOf(text: string, nowMs: number): number | null {
  const waitMs = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs
  return Number.isNaN(waitMs) ? null : Math.min(Math.max(0, waitMs), MOST_RETRY_AFTER_MS)
}

/** The first KiB as text; the rest is not read. */
async function excerptOf(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string | null> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of body) {
    parts.push(part)
    size += part.length
    if (size >= EXCERPT_BYTES) break
  }
  body.destroy()
  const text = Buffer.concat(parts).subarray(0, EXCERPT_BYTES).toString('utf8').replaceAll('\0', '')
  return text === '' ? null : text
}

/** Several addresses that all failed are one error with the others inside. */
function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return messageOf(error.errors[0])
  const text = error instanceof Error ? error.message : String(error)
  return text.replace(/\s+/g, ' ').slice(0, 300)
}
