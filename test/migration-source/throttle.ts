import type { ServerResponse } from 'node:http'
import { Refusal } from './answer.ts'
import type { Api } from './keys.ts'
import type { Faults, Flavor } from './options.ts'
import type { LoggedRequest } from './request-log.ts'

/** What is allowed in a minute, where nothing else is set. */
const LIMITS: Readonly<Record<Flavor, Readonly<Record<Api, number>>>> = {
  pterodactyl: { application: 240, client: 720 },
  pelican: { application: 256, client: 256 },
}
/** What was on its way when the panel asked to be left alone is nobody's fault. */
const ON_ITS_WAY_MS = 100

interface Window {
  readonly from: number
  count: number
  /** Since when and until when the caller was asked to wait. */
  wait: { readonly sinceMs: number; readonly untilMs: number } | undefined
}

/** A fixed window for each user and API. */
export class Throttle {
  readonly #flavor: Flavor
  readonly #faults: () => Faults
  readonly #windows = new Map<string, Window>()

  constructor(flavor: Flavor, faults: () => Faults) {
    this.#flavor = flavor
    this.#faults = faults
  }

  /** Begins all windows anew. */
  reset(): void {
    this.#windows.clear()
  }

  /** Counts a request, or refuses it; whether it came too early goes into its entry. */
  count(api: Api, userId: number, response: ServerResponse, entry: LoggedRequest): void {
    const { throttle, throttleWindowMs } = this.#faults()
    const limit = throttle ?? LIMITS[this.#flavor][api]
    const key = `${api} ${userId}`
    const now = Date.now()
    const before = this.#windows.get(key)
    const isOpen = before !== undefined && now < before.from + throttleWindowMs
    const window = isOpen ? before : { from: now, count: 0, wait: before?.wait }
    this.#windows.set(key, window)
    const { wait } = window
    entry.early = wait !== undefined && now < wait.untilMs && now > wait.sinceMs + ON_ITS_WAY_MS
    const isOver = window.count >= limit
    if (!isOver) window.count++
    response.setHeader('x-ratelimit-limit', String(limit))
    response.setHeader('x-ratelimit-remaining', String(limit - window.count))
    if (!isOver) return
    const untilMs = waitUntil(window.from + throttleWindowMs, now, this.#faults().retryAfter)
    response.setHeader('x-ratelimit-reset', String(Math.ceil(untilMs / 1000)))
    if (wait === undefined || wait.untilMs < now) window.wait = { sinceMs: now, untilMs }
    throw new Refusal(429, 'ThrottleRequestsException', 'Too Many Attempts.', { retryAtMs: untilMs })
  }
}

/** The end of a wait as it can be said: in whole seconds from now, or at a whole second. */
function waitUntil(endMs: number, nowMs: number, said: Faults['retryAfter']): number {
  if (said === 'date') return Math.ceil(endMs / 1000) * 1000
  return nowMs + Math.max(1, Math.ceil((endMs - nowMs) / 1000)) * 1000
}

/** Says when to come again. */
export function setRetryAfter(response: ServerResponse, atMs: number, said: Faults['retryAfter']): void {
  const seconds = Math.max(1, Math.ceil((atMs - Date.now()) / 1000))
  response.setHeader('retry-after', said === 'date' ? new Date(atMs).toUTCString() : String(seconds))
}
