import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { URI } from 'otpauth'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { getMe, login } from '../../../src/shared/api/auth.ts'
import { putProvider, testProvider } from '../../../src/shared/api/providers.ts'
import { exchangeSsoCode, signInByProvider } from '../../../src/shared/api/sso.ts'
import { enableTwoFactor, verifyTotp } from '../../../src/shared/api/two-factor.ts'
import { banUser, createUser } from '../../../src/shared/api/users.ts'
import { ProviderId, UserId } from '../../../src/shared/kernel/ids.ts'
import { Browser } from '../../browser.ts'
import { type ForgingProvider, startForger } from '../../forging-provider.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { atProgram, codeOf, fetchCode, signInBy, waiting } from './sign-ins.ts'

const ID = ProviderId.parse('forger')
const params = { providerId: ID }
const PASSWORD = 'Correct-horse-1'

let panel: TestPanel
let forger: ForgingProvider
beforeAll(async () => {
  panel = await startPanel()
  forger = await startForger()
  await change({
    clientId: 'panel',
    discoveryUrl: forger.issuer,
    createAccounts: true,
    allowedDomains: ['example.org'],
  })
})
afterAll(async () => {
  await forger.close()
  await panel.close()
})
beforeEach(() => {
  forger.forgery = {}
  forger.person = { sub: 'ann', email: 'ann@example.org', email_verified: true }
})

const change = (body: object) => panel.client.call(putProvider, { params, body })
const outcome = async () => {
  const { error, token } = await signInBy(panel, 'forger')
  return error ?? (token === undefined ? 'nothing' : 'signed in')
}

describe('what a provider sends back', () => {
  it('is taken when all is right', async () => {
    expect(await outcome()).toBe('signed in')
    expect(forger.asked.at(-1)?.get('code_verifier')).toMatch(/^[\w-]{43}$/)
  })

  it.each([
    ['of another issuer', { claims: (right: object) => ({ ...right, iss: 'https://id.example.org' }) }],
    ['for another client', { claims: (right: object) => ({ ...right, aud: 'another' }) }],
    ['with another nonce', { claims: (right: object) => ({ ...right, nonce: 'another' }) }],
    ['without a nonce', { claims: ({ nonce: _, ...right }: { nonce?: string }) => right }],
    ['that has expired', { claims: (right: object) => ({ ...right, exp: Math.floor(Date.now() / 1000) - 3600 }) }],
    ['signed by another key', { otherKey: true }],
  ])('is refused %s, and written down', async (_, forgery) => {
    const before = await panel.client.page(listAuditLogs, { query: { action: 'auth.login_failed' } })
    forger.forgery = forgery
    expect(await outcome()).toBe('INVALID_CREDENTIALS')
    const after = await panel.client.page(listAuditLogs, { query: { action: 'auth.login_failed' } })
    expect(after.pagination.total).toBe(before.pagination.total + 1)
    expect(after.data[0]).toMatchObject({ resourceId: 'forger', details: { provider: 'forger' } })
  })

  it('is refused with a code that the provider does not know, and tells what the provider said', async () => {
    forger.forgery = { query: (right) => new URLSearchParams({ ...Object.fromEntries(right), code: 'made-up' }) }
    expect(await signInBy(panel, 'forger')).toMatchObject({
      error: 'INVALID_CREDENTIALS',
      message: expect.stringMatching(/invalid_grant/),
    })
    forger.forgery = {
      query: (right) => new URLSearchParams({ state: right.get('state') ?? '', error: 'access_denied' }),
    }
    expect(await signInBy(panel, 'forger')).toMatchObject({
      error: 'INVALID_CREDENTIALS',
      message: expect.stringMatching(/access_denied/),
    })
  })

  it('is refused from a forged state, a used one, another browser, and another provider’s address', async () => {
    const isBack = (url: URL): boolean => url.pathname.startsWith('/api/auth/oauth2/callback/')
    const stopped = async () => {
      const browser = new Browser()
      const { url } = await panel
        .as(undefined)
        .call(signInByProvider, { body: { providerId: ID, loopback: waiting().loopback } })
      return { browser, back: (await browser.go(url, isBack)).url }
    }
    const refused = async (browser: Browser, url: URL): Promise<string> => {
      const { status, body } = await browser.go(url.href, atProgram)
      return status === 400 ? (JSON.parse(body) as { code: string }).code : `status ${status}`
    }
    const one = await stopped()
    const forged = new URL(one.back)
    forged.searchParams.set('state', 'x'.repeat(43))
    expect(await refused(one.browser, forged)).toBe('TOKEN_INVALID')
    expect(await refused(new Browser(), one.back)).toBe('TOKEN_INVALID')
    const two = await stopped()
    expect(await refused(two.browser, one.back)).toBe('TOKEN_INVALID')
    const elsewhere = new URL(one.back.href.replace('/callback/forger', '/callback/other'))
    expect(await refused(one.browser, elsewhere)).toBe('TOKEN_INVALID')
    const arrived = await one.browser.go(one.back.href, atProgram)
    expect(arrived.url.searchParams.get('code')).toMatch(/^[\w-]{43}$/)
    expect(await refused(one.browser, one.back)).toBe('TOKEN_INVALID')
  })

  it('is refused when a start address is used twice', async () => {
    const { url } = await panel
      .as(undefined)
      .call(signInByProvider, { body: { providerId: ID, loopback: waiting().loopback } })
    expect((await new Browser().go(url, atProgram)).url.searchParams.get('code')).not.toBeNull()
    expect((await new Browser().go(url, atProgram)).status).toBe(400)
  })
})

describe('a page of the panel', () => {
  it('gets a session cookie and goes where it wanted to, on this panel only', async () => {
    const browser = new Browser()
    const begin = (callbackURL: string) =>
      fetch(`${panel.url}/api/auth/sign-in/oauth2`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ providerId: 'forger', callbackURL }),
      })
    for (const bad of ['https://evil.example/', '//evil.example', '/\\evil.example', 'servers']) {
      expect((await begin(bad)).status).toBe(400)
    }
    const answer = await begin('/servers?from=sso')
    browser.take(panel.url, answer.headers)
    const { data } = (await answer.json()) as { data: { url: string } }
    const { url } = await browser.go(data.url, ({ pathname }) => pathname === '/servers')
    expect(url.href).toBe(`${panel.url}/servers?from=sso`)
    const token = browser.cookie(panel.url, 'panel_session')
    expect(await panel.as(token).call(getMe)).toMatchObject({ email: 'ann@example.org' })
  })
})

describe('whom a provider signs in', () => {
  const account = async (username: string): Promise<UserId> => {
    const body = { email: `${username}@example.org`, username, password: PASSWORD }
    return UserId.parse((await panel.client.call(createUser, { body })).id)
  }

  it('is nobody new without a confirmed address of an allowed domain', async () => {
    forger.person = { sub: 'bob', email: 'bob@example.org', email_verified: false }
    expect(await outcome()).toBe('EMAIL_NOT_VERIFIED')
    forger.person = { sub: 'bob', email: 'bob@example.org' }
    expect(await outcome()).toBe('EMAIL_NOT_VERIFIED')
    forger.person = { sub: 'bob', email: 'bob@elsewhere.example', email_verified: true }
    expect(await outcome()).toBe('PERMISSION_DENIED')
    await change({ createAccounts: false })
    forger.person = { sub: 'bob', email: 'bob@example.org', email_verified: true }
    expect(await outcome()).toBe('PERMISSION_DENIED')
    await change({ createAccounts: true })
    expect(await outcome()).toBe('signed in')
  })

  it('is nobody who is here already, unless addresses link and both sides have confirmed theirs', async () => {
    const id = await account('cleo')
    forger.person = { sub: 'cleo', email: 'cleo@example.org', email_verified: true }
    expect(await outcome()).toBe('USER_EXISTS')
    await change({ linkByEmail: true })
    try {
      forger.person = { ...forger.person, email_verified: false }
      expect(await outcome()).toBe('EMAIL_NOT_VERIFIED')
      forger.person = { ...forger.person, email_verified: true }
      const { token } = await signInBy(panel, 'forger')
      expect((await panel.as(token).call(getMe)).id).toBe(id)
    } finally {
      await change({ linkByEmail: false })
    }
    expect(await outcome()).toBe('signed in')
  })

  it('is not signed in while banned, locked, or by a provider that is switched off', async () => {
    const locked = { email: 'dora@example.org', password: 'wrong' }
    forger.person = { sub: 'dora', email: locked.email, email_verified: true }
    expect(await outcome()).toBe('signed in')
    for (let i = 0; i < 5; i++) await codeOf(panel.as(undefined).call(login, { body: locked }))
    expect(await codeOf(signInBy(panel, 'forger'))).toBe('ACCOUNT_LOCKED')
    forger.person = { sub: 'emil', email: 'emil@example.org', email_verified: true }
    const { token } = await signInBy(panel, 'forger')
    const { id: userId } = await panel.as(token).call(getMe)
    await panel.client.call(banUser, { params: { userId }, body: {} })
    expect(await codeOf(signInBy(panel, 'forger'))).toBe('ACCOUNT_BANNED')
    await change({ enabled: false })
    expect(await codeOf(signInBy(panel, 'forger'))).toBe('PROVIDER_DISABLED')
    await change({ enabled: true })
    const none = panel.as(undefined).call(signInByProvider, { body: { providerId: ProviderId.parse('none') } })
    expect(await codeOf(none)).toBe('PROVIDER_NOT_FOUND')
  })

  it('gives a second factor all the same', async () => {
    await account('fay')
    forger.person = { sub: 'fay', email: 'fay@example.org', email_verified: true }
    await change({ linkByEmail: true })
    const fay = panel.as((await signInBy(panel, 'forger')).token)
    await change({ linkByEmail: false })
    const { totpURI } = await fay.call(enableTwoFactor, { body: { password: PASSWORD } })
    const totp = URI.parse(totpURI)
    await fay.call(verifyTotp, { body: { code: totp.generate() } })
    const { query, verifier } = await fetchCode(panel, 'forger')
    const body = { code: query.get('code') ?? '', codeVerifier: verifier }
    const waits = await panel
      .as(undefined)
      .call(exchangeSsoCode, { body })
      .catch((error: unknown) => error)
    expect(waits).toMatchObject({ code: 'TWO_FACTOR_REQUIRED', meta: { token: expect.any(String) } })
    const { token } = (waits as { meta: { token: string } }).meta
    const code = totp.generate({ timestamp: Date.now() + 30_000 })
    expect((await panel.as(undefined).call(verifyTotp, { body: { token, code } })).username).toBe('fay')
  })
})

describe('a provider that cannot be used', () => {
  it('says what is wrong', async () => {
    const problem = async () => {
      const { ok, step, error } = await panel.client.call(testProvider, { params })
      return ok ? 'fine' : `${step}: ${error}`
    }
    expect(await problem()).toBe('fine')
    forger.forgery = { metadata: { issuer: 'https://id.example.org' } }
    expect(await problem()).toMatch(/^discovery: .*issuer/)
    forger.forgery = { metadata: { code_challenge_methods_supported: ['plain'] } }
    expect(await problem()).toMatch(/^discovery: .*PKCE/)
    forger.forgery = { metadata: { jwks_uri: 'http://keys.example.org/' } }
    expect(await problem()).toMatch(/^keys: .*no https address/)
    forger.forgery = { metadata: { jwks_uri: `${forger.issuer}/authorize` } }
    expect(await problem()).toMatch(/^keys: /)
    forger.forgery = {}
    await change({ discoveryUrl: `http://127.0.0.1:${await closedPort()}` })
    expect(await problem()).toMatch(/^discovery: .*[Nn]othing listens/)
    expect(await codeOf(signInBy(panel, 'forger'))).toBe('PROVIDER_FAILED')
    await change({ discoveryUrl: `${panel.url}/api/nothing` })
    expect(await problem()).toMatch(/^discovery: .*status 404/)
    await change({ discoveryUrl: 'https://nowhere.invalid' })
    expect(await problem()).toMatch(/^discovery: .*not known/)
    expect(await codeOf(change({ discoveryUrl: 'http://id.example.org' }))).toBe('VALIDATION_ERROR')
  })
})

/** A port where nothing listens any more. */
async function closedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  await new Promise((resolve) => server.close(resolve))
  return port
}
