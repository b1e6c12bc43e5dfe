import { createHash, randomBytes } from 'node:crypto'
import { exchangeSsoCode, signInByProvider } from '../../../src/shared/api/sso.ts'
import { PanelError } from '../../../src/shared/kernel/errors.ts'
import { ProviderId } from '../../../src/shared/kernel/ids.ts'
import { Browser } from '../../browser.ts'
import type { TestPanel } from '../../panel.ts'

/** A program that waits on this machine, and what its browser brings. */
export interface Waiting {
  readonly loopback: { readonly port: number; readonly state: string; readonly codeChallenge: string }
  readonly verifier: string
}

const LOOPBACK_PORT = 40_999

export function waiting(): Waiting {
  const verifier = randomBytes(32).toString('base64url')
  const codeChallenge = createHash('sha256').update(verifier).digest('base64url')
  return { verifier, loopback: { port: LOOPBACK_PORT, state: randomBytes(16).toString('base64url'), codeChallenge } }
}

/** Whether the browser has come to the waiting program. */
export const atProgram = (url: URL): boolean => url.port === String(LOOPBACK_PORT)

/** Signs in as a program does, up to the code: what the browser brought. */
export async function fetchCode(panel: TestPanel, providerId: string, browser = new Browser()) {
  const program = waiting()
  const body = { providerId: ProviderId.parse(providerId), loopback: program.loopback }
  const { url } = await panel.as(undefined).call(signInByProvider, { body })
  const arrived = await browser.go(url, atProgram)
  return { ...program, browser, arrived, query: arrived.url.searchParams }
}

/** Signs in as a program does; the session, or the code of the refusal that the browser brought. */
export async function signInBy(
  panel: TestPanel,
  providerId: string,
): Promise<{ token?: string; error?: string; message?: string }> {
  const { query, verifier } = await fetchCode(panel, providerId)
  const error = query.get('error')
  if (error !== null) return { error, message: query.get('message') ?? '' }
  const body = { code: query.get('code') ?? '', codeVerifier: verifier }
  return { token: (await panel.as(undefined).call(exchangeSsoCode, { body })).token }
}

/** The code that the call is refused with. */
export async function codeOf(call: Promise<unknown>): Promise<string> {
  try {
    await call
  } catch (error) {
    if (error instanceof PanelError) return error.code
    throw error
  }
  throw new Error('the call was not refused')
}
