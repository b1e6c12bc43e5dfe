import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { URI } from 'otpauth'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { getMe, login } from '../../src/shared/api/auth.ts'
import { beginPasskey, verifyPasskey } from '../../src/shared/api/passkeys.ts'
import { enableTwoFactor, verifyTotp } from '../../src/shared/api/two-factor.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { createPasskey } from '../authenticator.ts'
import { Browser } from '../browser.ts'
import { startProvider, type TestProvider } from '../oidc-provider.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { type RunOptions, runPanel } from '../run-panel.ts'
import { walkPanel } from './command-walk.ts'
import { SIGN_IN } from './sign-in-paths.ts'

const PASSWORD = 'Correct horse 9 battery!'

let panel: TestPanel
let provider: TestProvider
let eve = ''
beforeAll(async () => {
  panel = await startPanel()
  provider = await startProvider([`${panel.url}/api/auth/oauth2/callback/corp`])
  const body = { email: 'eve@example.org', username: 'eve', password: PASSWORD }
  await panel.client.call(createUser, { body })
  eve = (await panel.as(undefined).call(login, { body: { email: body.email, password: PASSWORD } })).token
}, 60_000)
afterAll(async () => {
  await provider.close()
  await panel.close()
})
beforeEach(() => {
  provider.person = { sub: 'ann', email: 'ann@example.org', email_verified: true, preferred_username: 'ann' }
})

const walk = walkPanel(SIGN_IN, () => panel)
const { run, ok, json, refused } = walk

/** A person who opens the address that the command prints, in his browser. */
function browsing(seen: { page?: string } = {}): Pick<RunOptions, 'onError'> {
  let opened = false
  return {
    onError: (stderr) => {
      const address = /^(http:\S+\/api\/auth\/oauth2\/start\?\S+)$/m.exec(stderr)?.[1]
      if (address === undefined || opened) return undefined
      opened = true
      void new Browser().go(address).then(({ body }) => {
        seen.page = body
      })
      return undefined
    },
  }
}

describe('identity providers', { timeout: 60_000 }, () => {
  it('are created, shown, tested, edited and deleted', async () => {
    const secret = join(panel.home, 'secret')
    await writeFile(secret, `${provider.clientSecret}\n`)
    const create = ['providers', 'create', 'corp', '--name', 'Corp', '--client-id', provider.clientId]
    await refused(8, create)
    await ok([...create, '--discovery-url', provider.issuer, '--client-secret-file', secret])
    await refused(7, [...create, '--discovery-url', provider.issuer])
    expect(await ok(['providers', 'list', '-o', 'name'])).toBe('Corp\n')
    expect(await json(['providers', 'view', 'corp'])).toMatchObject({ clientSecret: '********', enabled: true })
    expect(await json(['providers', 'test', 'corp'])).toEqual({ ok: true, issuer: provider.issuer })
    const edited = await json([
      'providers',
      'edit',
      'corp',
      '--create-accounts',
      '--domain',
      'example.org',
      '--group-claim',
      'groups',
      '--role',
      'cn=admins,ou=x=Administrator',
      '--scope',
      'profile,email,groups',
    ])
    expect(edited).toMatchObject({
      createAccounts: true,
      allowedDomains: ['example.org'],
      roleMapping: [{ group: 'cn=admins,ou=x' }],
    })
    expect(await json(['providers', 'edit', 'corp', '--unset', 'role'])).toMatchObject({ roleMapping: [] })
    await refused(2, ['providers', 'edit', 'corp'])
    await refused(6, ['providers', 'edit', 'nobody', '--name', 'x'])
    await refused(5, ['providers', 'view', 'corp'], { token: eve })
    await ok(['providers', 'create', 'gone', '--client-id', 'x', '--discovery-url', 'http://127.0.0.1:1'])
    expect((await refused(11, ['providers', 'test', 'gone'])).stdout).toContain('discovery')
    await ok(['providers', 'delete', 'gone', '--yes'])
    await refused(6, ['providers', 'delete', 'gone', '--yes'])
    await ok(['providers', 'delete', 'gone', '--yes', '--ignore-not-found'])
  })

  it('of billing panels are settings too', async () => {
    const set = ['settings', 'oidc', 'set', 'whmcs']
    await refused(2, set)
    const changed = await json(
      [...set, '--client-id', provider.clientId, '--discovery-url', provider.issuer, '--client-secret-stdin'],
      { input: provider.clientSecret },
    )
    expect(changed.whmcs).toMatchObject({ clientSecret: '********', source: 'database' })
    await ok(['settings', 'oidc', 'test', 'whmcs'])
    expect((await json(['settings', 'public'])).authProviders).toEqual({ whmcs: true, paymenter: false })
    await ok([...set, '--unset', 'client-id', '--unset', 'client-secret', '--unset', 'discovery-url'])
    expect((await json(['settings', 'oidc', 'get'])).whmcs).toEqual({
      clientId: null,
      clientSecret: null,
      discoveryUrl: null,
      source: 'none',
    })
  })
})

describe('panel login --web', { timeout: 60_000 }, () => {
  const web = () => ['login', panel.url, '--web', '--name', 'web', '--no-browser']

  it('signs in by a real provider and keeps a key, never a token in an address', async () => {
    const seen: { page?: string } = {}
    const ran = await run(web(), { token: '', ...browsing(seen) })
    expect(ran).toMatchObject({ code: 0, stderr: expect.stringMatching(/signed in to .* as ann \(context web\)/) })
    expect(seen.page).toContain('You can close this page')
    expect(ran.stdout + ran.stderr + panel.log()).not.toMatch(/p(ak|st)_[0-9a-z]{26}_[\w-]{43}/)
    const who = await runPanel(['whoami', '--context', 'web', '-o', 'json'], { env: { HOME: panel.home } })
    expect(JSON.parse(who.stdout)).toMatchObject({ username: 'ann' })
  })

  it('tells why the provider’s word is not enough, in the browser too', async () => {
    provider.person = { sub: 'bob', email: 'bob@elsewhere.example', email_verified: true }
    const seen: { page?: string } = {}
    const ran = await run(web(), { token: '', ...browsing(seen) })
    expect(ran).toMatchObject({ code: 5, stderr: expect.stringMatching(/elsewhere\.example/) })
    expect(seen.page).toContain('elsewhere.example')
  })

  it('asks for the second factor', async () => {
    const key = panel.as(
      (await runPanel(['auth', 'token', '--context', 'web'], { env: { HOME: panel.home } })).stdout.trim(),
    )
    expect(await key.call(getMe)).toMatchObject({ username: 'ann' })
    await ok(['profile', 'password', '--set', '--password-stdin'], { token: await tokenOf('web'), input: PASSWORD })
    const { totpURI } = await key.call(enableTwoFactor, { body: { password: PASSWORD } })
    const totp = URI.parse(totpURI)
    await key.call(verifyTotp, { body: { code: totp.generate() } })
    const code = totp.generate({ timestamp: Date.now() + 30_000 })
    expect(await run([...web(), '--totp-stdin'], { token: '', input: code, ...browsing() })).toMatchObject({ code: 0 })
  })

  it('waits only so long, stops at Ctrl-C, and refuses what it cannot do', async () => {
    const late = await refused(124, [...web(), '--timeout', '200ms'], { token: '' })
    expect(late.stderr).toContain('has not come back')
    const stopped = await run(web(), {
      token: '',
      onError: (text) => (text.includes('/start?') ? 'SIGINT' : undefined),
    })
    expect(stopped.code).toBe(130)
    await refused(6, [...web(), '--provider', 'nobody'], { token: '' })
    await refused(2, [...web(), '--token-stdin'], { token: '' })
  })
})

describe('what one signs in with', { timeout: 60_000 }, () => {
  it('links and unlinks an account at a provider', async () => {
    provider.person = { sub: 'eve-there' }
    expect(await json(['profile', 'sso', 'link', 'corp', '--no-browser'], { token: eve, ...browsing() })).toMatchObject(
      { accountId: 'eve-there' },
    )
    await refused(7, ['profile', 'sso', 'link', 'corp', '--no-browser'], { token: panel.adminToken, ...browsing() })
    expect(await ok(['profile', 'sso', 'list', '-o', 'name'], { token: eve })).toBe('corp\n')
    await ok(['profile', 'sso', 'unlink', 'corp', '--yes'], { token: eve })
    await refused(6, ['profile', 'sso', 'unlink', 'corp', '--yes'], { token: eve })
  })

  it('lists, renames and deletes passkeys', async () => {
    const client = panel.as(eve)
    const key = createPasskey(panel.url.replace('127.0.0.1', 'localhost'))
    await client.call(verifyPasskey, {
      body: { response: key.register(await client.call(beginPasskey)), name: 'phone' },
    })
    await ok(['profile', 'passkeys', 'rename', 'phone', '--name', 'old phone'], { token: eve })
    expect(await ok(['profile', 'passkeys', 'list', '-o', 'name'], { token: eve })).toBe('old phone\n')
    await refused(6, ['profile', 'passkeys', 'delete', 'phone', '--yes'], { token: eve })
    await ok(['profile', 'passkeys', 'delete', 'old phone', '--yes'], { token: eve })
  })

  it('are all commands here', () => {
    expect(walk.left()).toEqual([])
  })
})

async function tokenOf(context: string): Promise<string> {
  return (await runPanel(['auth', 'token', '--context', context], { env: { HOME: panel.home } })).stdout.trim()
}
