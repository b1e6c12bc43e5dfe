import { randomInt } from 'node:crypto'
import type { Agent, Dispatcher } from 'undici'
import { agentText } from '../../../../../shared/kernel/agent-text.ts'
import { isDeeperThan } from '../../../../../shared/kernel/json-depth.ts'
import type { Clock } from '../../../../../shared/kernel/time.ts'
import { connectionCause } from '../../../../../shared/platform/connection-cause.ts'
import { RequestBudget } from './request-budget.ts'
import { SourceFailure, type SourceUsage } from './source.ts'

/** The two APIs of a source: that of its administration, and that of accounts. Each has a throttle of its own. */
export type SourceApi = 'application' | 'client'

/** Where a source is, and what opens it. */
export interface SourceAccess {
  /** `http` or `https`, with the folder it lives in, if any. */
  readonly url: string
  /** Of the administration's API; one of an administrator's account is good for both. */
  readonly key: string
  /** Of an administrator's account; `null`: {@link key} is tried. */
  readonly clientKey: string | null
  /** Certificates are not checked. */
  readonly isInsecure: boolean
}

export interface SourceHttpDeps {
  readonly clock: Clock
  /** What spreads repeated requests; tests own it. */
  readonly random?: () => number
  /** See {@link DEFAULT_WAITS}. */
  readonly waits?: Partial<typeof DEFAULT_WAITS>
}

/** Milliseconds. */
export const DEFAULT_WAITS = {
  /** Without a word from the source. */
  silence: 60_000,
  /** Of an answer as a whole. */
  answer: 180_000,
  firstRetry: 1000,
  mostRetry: 30_000,
  /** For which one request puts up with being throttled. */
  mostThrottled: 2 * 3_600_000,
}

export interface SourceRequest {
  readonly api: SourceApi
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Begins with a slash; ids in it are encoded by {@link pathOf}. */
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** How often a failure that may pass is met. 6 by default. */
  readonly attempts?: number
  /** Called with how many characters an answer has. */
  readonly onAnswer?: (length: number) => void
}

/** A reason of its own: Node makes an error with a trace for each that has none. */
const OVER = new Error('the request is over')
const ATTEMPTS = 6
const MOST_BODY_BYTES = 32 * 1024 * 1024
/** A configuration of an egg is nested by its author; nothing else comes near. */
const MOST_DEPTH = 64
const CONNECT_MS = 10_000
/** The longest `Retry-After` that one waits for on the spot. */
const MOST_SILENCE_MS = 15 * 60_000
/** For a throttle that does not say for how long. */
const USUAL_SILENCE_MS = 60_000
const MOST_DETAIL = 400

/** Requests to a source, in its manners. Knows nothing of what they mean. */
export class SourceHttp {
  readonly url: URL
  readonly #access: SourceAccess
  readonly #clock: Clock
  readonly #random: () => number
  readonly #waits: typeof DEFAULT_WAITS
  readonly #budgets: Readonly<Record<SourceApi, RequestBudget>>
  #connections: Agent | undefined
  #requests = 0
  #retries = 0

  /** Throws a {@link SourceFailure} for an address that cannot be one. */
  constructor(access: SourceAccess, { clock, random = anyShare, waits = {} }: SourceHttpDeps) {
    this.url = addressOf(access.url)
    const keys = [access.key, access.clientKey ?? access.key]
    if (!keys.every((key) => /^[!-~]{1,500}$/.test(key))) {
      throw new SourceFailure('auth', 'a key of the source must be one line without blanks')
    }
    this.#access = access
    this.#clock = clock
    this.#random = random
    this.#waits = { ...DEFAULT_WAITS, ...waits }
    this.#budgets = { application: new RequestBudget(clock, random), client: new RequestBudget(clock, random) }
  }

  get usage(): SourceUsage {
    const throttledMs = Math.round(this.#budgets.application.throttledMs + this.#budgets.client.throttledMs)
    const known = Object.values(this.#budgets).flatMap(({ perMinute }) => perMinute ?? [])
    const perMinute = known.length === 0 ? null : known.reduce((sum, one) => sum + one, 0)
    return { requests: this.#requests, retries: this.#retries, throttledMs, perMinute }
  }

  async close(): Promise<void> {
    await this.#connections?.destroy()
  }

  /** The answer as JSON, `null` where it has no body. What is no POST is tried again where that may help. */
  async request(request: SourceRequest, signal: AbortSignal): Promise<unknown> {
    const attempts = request.method === 'POST' ? 1 : (request.attempts ?? ATTEMPTS)
    return await this.retried(attempts, () => this.#throttled(request, signal), signal)
  }

  /** Work that may be done again after a failure that may pass. */
  async retried<T>(attempts: number, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        if (!mayPass(error) || attempt >= triesOf(error, attempts)) throw error
        this.#retries++
        await this.#sleep(this.#backOffMs(attempt), signal)
      }
    }
  }

  /**
   * A POST. After an answer that was lost nobody knows whether it was carried out: it is sent again only when `lookUp` has not found
   * its effect.
   */
  async post<T>(
    request: Omit<SourceRequest, 'method' | 'attempts'>,
    { read, lookUp }: { readonly read: (answer: unknown) => T; readonly lookUp: () => Promise<T | undefined> },
    signal: AbortSignal,
  ): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return read(await this.request({ ...request, method: 'POST' }, signal))
      } catch (error) {
        // What was throttled was not carried out.
        if (!mayPass(error) || triesOf(error, ATTEMPTS) === 0) throw error
        // What was lost may still be at work there.
        await this.#sleep(this.#backOffMs(attempt), signal)
        const found = await lookUp()
        if (found !== undefined) return found
        if (attempt >= triesOf(error, ATTEMPTS)) throw error
        this.#retries++
      }
    }
  }

  /** One request, however long it has to wait for its turn. */
  async #throttled(request: SourceRequest, signal: AbortSignal): Promise<unknown> {
    const budget = this.#budgets[request.api]
    const from = this.#clock.monotonicMs()
    for (;;) {
      const { silentMs } = budget
      if (silentMs > MOST_SILENCE_MS) throw throttled(this.url.host, silentMs)
      const release = await budget.take(signal)
      try {
        return await this.#once(request, signal)
      } catch (error) {
        if (!(error instanceof SourceFailure)) throw error
        const { problem, retryAfterMs } = error
        // In maintenance: nothing of it answers, and it is tried again when that is over.
        if (problem === 'broken' && retryAfterMs !== null) {
          for (const each of Object.values(this.#budgets)) each.silence(retryAfterMs)
        }
        if (problem !== 'throttle') throw error
        const waitMs = retryAfterMs ?? USUAL_SILENCE_MS
        // Waiting is not trying: the whole API is left alone, and no attempt is used up.
        budget.silence(waitMs)
        const isTooLong = this.#clock.monotonicMs() - from + waitMs > this.#waits.mostThrottled
        if (waitMs > MOST_SILENCE_MS || isTooLong) throw error
      } finally {
        release()
      }
    }
  }

  async #once(request: SourceRequest, signal: AbortSignal): Promise<unknown> {
    this.#requests++
    const late = new AbortController()
    const done = new AbortController()
    void this.#clock.sleep(this.#waits.answer, done.signal).then(() => late.abort())
    try {
      const { status, headers, text } = await this.#send(request, AbortSignal.any([signal, late.signal]))
      const limit = countOf(headers['x-ratelimit-limit'])
      const remaining = countOf(headers['x-ratelimit-remaining'])
      if (limit !== undefined && remaining !== undefined && status !== 429) {
        this.#budgets[request.api].learn(limit, remaining)
      }
      request.onAnswer?.(text.length)
      return this.#read(request, { status, headers, text })
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof SourceFailure) throw error
      const cause = late.signal.aborted ? new Error(`nothing whole within ${this.#waits.answer / 1000} s`) : error
      throw unanswered(cause, this.url.host)
    } finally {
      done.abort(OVER)
    }
  }

  async #send({ api, method, path, query = {}, body }: SourceRequest, signal: AbortSignal): Promise<RawAnswer> {
    const url = new URL(`${withoutSlashes(this.url.pathname)}/api/${api}${path}`, this.url)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const key = api === 'client' ? (this.#access.clientKey ?? this.#access.key) : this.#access.key
    const answer = await this.open(url, {
      method,
      headers: {
        // Any other type would be answered with a page for people.
        accept: 'application/vnd.pterodactyl.v1+json',
        authorization: `Bearer ${key}`,
        'user-agent': 'panel-migration',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal,
    })
    return { status: answer.statusCode, headers: answer.headers, text: await textOf(answer.body, this.url.host) }
  }

  /** One request to the panel or to one of its nodes, by the same rules for certificates and silence. Its body is to be read or destroyed. */
  async open(
    url: URL,
    {
      method = 'GET',
      headers,
      body = null,
      signal,
    }: {
      readonly method?: SourceRequest['method']
      readonly headers: Readonly<Record<string, string>>
      readonly body?: string | null
      readonly signal: AbortSignal
    },
  ): Promise<Dispatcher.ResponseData> {
    // Most panels never move in.
    const { Agent, request } = await import('undici')
    this.#connections ??= new Agent({
      connect: { timeout: CONNECT_MS, rejectUnauthorized: !this.#access.isInsecure },
      headersTimeout: this.#waits.silence,
      bodyTimeout: this.#waits.silence,
      connections: 8,
    })
    return await request(url, { method, headers, body, dispatcher: this.#connections, signal })
  }

  #read({ path }: SourceRequest, { status, headers, text }: RawAnswer): unknown {
    if (status >= 300 && status < 400) throw this.#redirected(status, headers['location'])
    const json = jsonOf(text)
    if (status >= 200 && status < 300) {
      if (text === '') return null
      if (json !== undefined) return json
      throw new SourceFailure('not-a-source', `${this.url.host} answers ${path} with something that is not JSON`, {
        isTransient: true,
        status,
      })
    }
    throw refusalOf({ status, host: this.url.host, ...errorOf(json), retryAfterMs: this.#retryAfterMs(headers) })
  }

  #redirected(status: number, location: unknown): SourceFailure {
    const to =
      typeof location === 'string' && URL.canParse(location, this.url.href) ? new URL(location, this.url).origin : ''
    const advice = to === '' || to === this.url.origin ? 'check the address' : `use ${agentText(to, 200)}`
    return new SourceFailure('not-a-source', `${this.url.host} sends requests elsewhere (${status}); ${advice}`, {
      status,
    })
  }

  /** Seconds or a date. `null`: nothing that can be understood. */
  #retryAfterMs(headers: RawAnswer['headers']): number | null {
    const text = headers['retry-after']
    if (typeof text !== 'string') return null
    const seconds = countOf(text)
    if (seconds !== undefined) return Math.max(1, seconds) * 1000
    const at = Date.parse(text)
    if (Number.isNaN(at)) return null
    // A date counts by the clock of the one who wrote it.
    const said = typeof headers['date'] === 'string' ? Date.parse(headers['date']) : Number.NaN
    const from = Number.isNaN(said) ? this.#clock.nowMs() : said
    return Math.max(1000, at - from)
  }

  #backOffMs(attempt: number): number {
    const { firstRetry, mostRetry } = this.#waits
    const most = Math.min(mostRetry, firstRetry * 2 ** attempt)
    return firstRetry + this.#random() * (most - firstRetry)
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    await this.#clock.sleep(ms, signal)
    signal.throwIfAborted()
  }
}

interface RawAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
}

/** From 0 to below 1. */
const anyShare = (): number => randomInt(1_000_000) / 1_000_000

/** A path without slashes at its end. */
export function withoutSlashes(path: string): string {
  let end = path.length
  while (path[end - 1] === '/') end--
  return path.slice(0, end)
}

/** A path of which each value is one segment, whatever stands in it. Throws a {@link SourceFailure} for one that cannot be any. */
export function pathOf(parts: TemplateStringsArray, ...values: readonly string[]): string {
  // A URL takes these for steps, however they are written.
  const step = values.find((value) => value === '' || value === '.' || value === '..')
  if (step !== undefined) throw new SourceFailure('not-a-source', 'the source has an id that is none')
  return parts.map((part, at) => part + (at < values.length ? encodeURIComponent(values[at] ?? '') : '')).join('')
}

/** A text of a source as it may be shown: one line, bounded, without keys, tokens and signatures. */
export function redacted(text: string): string {
  return agentText(
    text
      .slice(0, MOST_DETAIL * 4)
      .replace(/\b(?:ptl[ac]|papp|pacc)_\w{1,200}/g, '[key]')
      .replace(/\beyJ[\w-]{1,2000}(?:\.[\w-]{1,2000}){0,2}/g, '[token]')
      .replace(/\b(token|signature|credential)=[^\s&"']{1,2000}/gi, '$1=[hidden]'),
    MOST_DETAIL,
  )
}

/** Why a request had no answer, or none that is whole. */
export function unanswered(error: unknown, host: string): SourceFailure {
  const { reason, message } = connectionCause(error)
  if (reason === 'tls') {
    const advice = 'an authority of your own is trusted by NODE_EXTRA_CA_CERTS'
    return new SourceFailure('tls', `TLS with ${host} has failed: ${redacted(message)}; ${advice}`, { cause: error })
  }
  return new SourceFailure('unreachable', `${host} does not answer: ${redacted(message)}`, {
    isTransient: true,
    cause: error,
  })
}

/** A body as text; what is longer than any answer of a panel is refused, however it comes. */
export async function textOf(body: AsyncIterable<Buffer> & { destroy(): unknown }, host: string): Promise<string> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of body) {
    pieces.push(piece)
    size += piece.length
    if (size <= MOST_BODY_BYTES) continue
    body.destroy()
    const most = `${MOST_BODY_BYTES / 1024 / 1024} MiB`
    throw new SourceFailure('not-a-source', `${host} answers more than ${most} to one request`)
  }
  return Buffer.concat(pieces).toString('utf8')
}

/** `undefined`: no JSON, or nested deeper than anything that a panel answers. */
export function jsonOf(text: string): unknown {
  if (isDeeperThan(text, MOST_DEPTH)) return undefined
  try {
    return JSON.parse(text) as unknown
  } catch {
    // Pages of proxies are no JSON; the status says what there is to say.
    return undefined
  }
}

function addressOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new SourceFailure('not-a-source', 'the address of the source must be a URL such as https://panel.example.com')
  }
  if (url.username !== '' || url.password !== '') {
    throw new SourceFailure('not-a-source', 'the address of the source must have no user name or password in it')
  }
  url.search = ''
  url.hash = ''
  return url
}

const mayPass = (error: unknown): error is SourceFailure => error instanceof SourceFailure && error.isTransient

/** A node that is off stays off for longer than one tries; what asks for a long silence is not waited for on the spot. */
const triesOf = (error: SourceFailure, most: number): number =>
  error.problem === 'throttle' || error.problem === 'backup-throttle' || (error.retryAfterMs ?? 0) > MOST_SILENCE_MS
    ? 0
    : error.problem === 'node-offline'
      ? Math.min(most, 2)
      : most

function countOf(value: string | string[] | undefined): number | undefined {
  return typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : undefined
}

/** What a refusal says of itself: `{errors: [{code, detail}]}`. */
function errorOf(json: unknown): { readonly code: string; readonly detail: string } {
  const errors: unknown = typeof json === 'object' && json !== null ? Reflect.get(json, 'errors') : undefined
  const first: unknown = Array.isArray(errors) ? errors[0] : undefined
  const text = (name: string): string => {
    const value: unknown = typeof first === 'object' && first !== null ? Reflect.get(first, name) : undefined
    return typeof value === 'string' ? value : ''
  }
  return { code: redacted(text('code')).slice(0, 100), detail: redacted(text('detail')) }
}

function throttled(host: string, retryAfterMs: number | null): SourceFailure {
  const more = { status: 429, isTransient: true, retryAfterMs }
  return new SourceFailure('throttle', `${host} asks to be left alone for a while (429)`, more)
}

function refusalOf({
  status,
  host,
  code,
  detail,
  retryAfterMs,
}: {
  readonly status: number
  readonly host: string
  readonly code: string
  readonly detail: string
  readonly retryAfterMs: number | null
}): SourceFailure {
  const said = detail === '' ? '' : `: ${detail}`
  const more = { status, sourceCode: code === '' ? null : code, retryAfterMs }
  const fail = (problem: SourceFailure['problem'], message: string, isTransient = false): SourceFailure =>
    new SourceFailure(problem, message, { ...more, isTransient })
  switch (code) {
    case 'TooManyBackupsException':
      return fail('slots', `the server has no free slot for a backup${said}`)
    case 'TooManyRequestsHttpException':
      return fail('backup-throttle', `${host} takes no more backups of this server for now${said}`, true)
    case 'TwoFactorAuthRequiredException':
      return fail('auth', `${host} demands a second factor of the account that the key belongs to; turn it on there`)
    case 'DaemonConnectionException':
      return fail('node-offline', `${host} cannot reach the node of the server${said}`, true)
    case 'BackupLockedException':
      return fail('state', `the backup is locked${said}`)
  }
  if (status === 401) return fail('auth', `${host} does not accept the key; it may have been deleted there`)
  if (status === 403)
    return fail('denied', `${host} denies it (403)${said}; check the rights of the key and its addresses`)
  if (status === 404) return fail('missing', `${host} has no such thing (404)${said}`)
  if (status === 409) return fail('state', `the server is in a state that does not allow it${said}`)
  if (status === 429) return throttled(host, retryAfterMs)
  if (status === 408 || status >= 500)
    return fail('broken', `${host} answers with a failure (${code || status})${said}`, true)
  return fail('rejected', `${host} has refused it (${code || status})${said}`)
}
