import { isErrorCode, PanelError } from '../../../shared/kernel/errors.ts'
import { CliFailure } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'
import { listenOnLoopback } from './loopback.ts'
import { openBrowser } from './open-browser.ts'

const DEFAULT_TIMEOUT_MS = 300_000

/** Where the daemon sends the browser in the end. */
export interface LoopbackPlace {
  readonly port: number
  readonly state: string
  readonly codeChallenge: string
}

/** What the daemon takes for what the browser has done. */
export interface Proof {
  readonly code: string
  readonly codeVerifier: string
}

/**
 * Has a person do something in a browser on this machine: `begin` answers the address to open. Fails with the refusal that
 * the browser brings, with TIMEOUT when it brings nothing, and at Ctrl-C.
 */
export async function throughBrowser(run: Run, begin: (place: LoopbackPlace) => Promise<string>): Promise<Proof> {
  const timeoutMs = run.args.duration('timeout') ?? DEFAULT_TIMEOUT_MS
  const listener = await listenOnLoopback()
  const waiting = new AbortController()
  const stop = AbortSignal.any([waiting.signal, run.signal])
  try {
    const { port, state, codeChallenge, codeVerifier } = listener
    const url = await begin({ port, state, codeChallenge })
    if (!/^https?:\/\//i.test(url))
      throw new PanelError('INTERNAL_ERROR', 'The panel has answered no address of a page')
    const opened = run.args.choice('browser') !== false && (await openBrowser(run.env, url))
    const hint = opened
      ? 'a browser opens; if none does, open this address on this machine'
      : 'open this address on this machine'
    run.terminal.say(`${hint}:\n${url}`)
    const query = await Promise.race([listener.query, run.clock.sleep(timeoutMs, stop).then(() => undefined)])
    if (query === undefined) throw nothingCame(run, timeoutMs)
    return { code: codeFrom(query), codeVerifier }
  } finally {
    waiting.abort()
    await listener.close()
  }
}

function nothingCame(run: Run, timeoutMs: number): CliFailure {
  if (run.signal.aborted) return new CliFailure('INTERRUPTED', 'stopped; nothing has changed')
  return new CliFailure('TIMEOUT', `the browser has not come back within ${timeoutMs / 1000} s`, {
    hint: 'begin again; --timeout makes it longer',
  })
}

function codeFrom(query: URLSearchParams): string {
  const error = query.get('error')
  const message = query.get('message') ?? 'the sign-in has failed'
  if (error !== null) throw new PanelError(isErrorCode(error) ? error : 'INVALID_CREDENTIALS', message)
  const code = query.get('code')
  if (code === null || code === '') throw new PanelError('INVALID_CREDENTIALS', 'The browser has brought no code')
  return code
}
