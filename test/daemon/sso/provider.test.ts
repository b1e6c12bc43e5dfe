import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { getMe, setPassword } from '../../../src/shared/api/auth.ts'
import { getProvider, listProviders, putProvider, testProvider } from '../../../src/shared/api/providers.ts'
import { createRole } from '../../../src/shared/api/roles.ts'
import {
  completeSsoLink,
  exchangeSsoCode,
  linkSsoAccount,
  listSsoAccounts,
  unlinkSsoAccount,
} from '../../../src/shared/api/sso.ts'
import { ProviderId, RoleId } from '../../../src/shared/kernel/ids.ts'
import { Browser } from '../../browser.ts'
import { startProvider, type TestProvider } from '../../oidc-provider.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { atProgram, codeOf, fetchCode, signInBy, waiting } from './sign-ins.ts'

const ID = ProviderId.parse('corp')
const params = { providerId: ID }

let panel: TestPanel
let provider: TestProvider
beforeAll(async () => {
  panel = await startPanel()
  provider = await startProvider([`${panel.url}/api/auth/oauth2/callback/corp`])
  await panel.client.call(putProvider, {
    params,
    body: {
      name: 'Corp',
      clientId: provider.clientId,
      clientSecret: provider.clientSecret,
      discoveryUrl: provider.issuer,
      scopes: ['profile', 'email', 'groups'],
      allowedDomains: ['example.org'],
      createAccounts: true,
      groupClaim: 'groups',
    },
  })
})
afterAll(async () => {
  await provider.close()
  await panel.close()
})
beforeEach(() => {
  provider.person = { sub: 'ann', email: 'ann@example.org', email_verified: true, preferred_username: 'ann' }
})

describe('a real provider', () => {
  it('is looked at: all is right, or what is wrong', async () => {
    expect(await panel.client.call(testProvider, { params })).toEqual({ ok: true, issuer: provider.issuer })
    await panel.client.call(putProvider, { params, body: { clientSecret: 'not-the-secret-of-this-panel' } })
    expect(await panel.client.call(testProvider, { params })).toMatchObject({
      ok: false,
      step: 'client',
      error: expect.stringMatching(/invalid_client/),
    })
    await panel.client.call(putProvider, { params, body: { clientSecret: provider.clientSecret } })
  })

  it('signs people in: a new account the first time, the same one the second time', async () => {
    provider.person = { ...provider.person, given_name: 'Ann', family_name: 'Ode' }
    const { token } = await signInBy(panel, 'corp')
    const me = await panel.as(token).call(getMe)
    expect(me).toMatchObject({
      email: 'ann@example.org',
      username: 'ann',
      firstName: 'Ann',
      role: 'user',
      permissions: [],
    })
    provider.person = { ...provider.person, email: 'other@example.org' }
    const again = await signInBy(panel, 'corp')
    expect((await panel.as(again.token).call(getMe)).id).toBe(me.id)
    const rows = await panel.client.call(listAuditLogs, { query: { userId: me.id } })
    expect(rows.map(({ action }) => action).sort()).toEqual([
      'auth.login',
      'auth.login',
      'auth.sso_link',
      'user.create',
    ])
  })

  it('makes another user name of one that is taken, whatever stands in it', async () => {
    const named = async (sub: string) => {
      provider.person = { sub, email: `${sub}@example.org`, email_verified: true, preferred_username: 'Dee_100' }
      return (await panel.as((await signInBy(panel, 'corp')).token).call(getMe)).username
    }
    expect([await named('dee'), await named('dee-2'), await named('dee-3')]).toEqual([
      'Dee_100',
      'Dee_100-2',
      'Dee_100-3',
    ])
  })

  it('gives the roles of groups, and takes them back', async () => {
    const { id } = await panel.client.call(createRole, { body: { name: 'Helpers', permissions: ['server.read'] } })
    const roleMapping = [{ group: 'helpers', roleId: RoleId.parse(id) }]
    await panel.client.call(putProvider, { params, body: { roleMapping } })
    provider.person = { ...provider.person, sub: 'bea', email: 'bea@example.org', groups: ['others', 'helpers'] }
    const { token } = await signInBy(panel, 'corp')
    expect(await panel.as(token).call(getMe)).toMatchObject({ role: 'Helpers', permissions: ['server.read'] })
    provider.person = { ...provider.person, groups: [] }
    await signInBy(panel, 'corp')
    expect(await panel.as(token).call(getMe)).toMatchObject({ role: 'user', permissions: [] })
    const { id: resourceId } = await panel.as(token).call(getMe)
    const rows = await panel.client.call(listAuditLogs, { query: { resourceId } })
    expect(rows.map(({ action }) => action)).toEqual(expect.arrayContaining(['user.role_assign', 'user.role_remove']))
  })

  it('brings a code that works once, for two minutes, and only with its verifier', async () => {
    const use = (code: string | null, codeVerifier: string) =>
      panel.as(undefined).call(exchangeSsoCode, { body: { code: code ?? '', codeVerifier } })
    const first = await fetchCode(panel, 'corp')
    expect(first.query.get('state')).toBe(first.loopback.state)
    expect((await use(first.query.get('code'), first.verifier)).username).toBe('ann')
    expect(await codeOf(use(first.query.get('code'), first.verifier))).toBe('TOKEN_INVALID')
    const second = await fetchCode(panel, 'corp')
    expect(await codeOf(use(second.query.get('code'), waiting().verifier))).toBe('TOKEN_INVALID')
    expect(await codeOf(use(second.query.get('code'), second.verifier))).toBe('TOKEN_INVALID')
  })

  it('is linked to an account by whoever is signed in to it, and unlinked while another way is left', async () => {
    provider.person = { sub: 'cyd', email: 'cyd@example.org', email_verified: true }
    const cyd = panel.as((await signInBy(panel, 'corp')).token)
    provider.person = { sub: 'cyd-2', email: 'x@elsewhere.example', email_verified: false }
    const program = waiting()
    const { url } = await cyd.call(linkSsoAccount, { body: { providerId: ID, loopback: program.loopback } })
    const { url: end } = await new Browser().go(url, atProgram)
    const body = { code: end.searchParams.get('code') ?? '', codeVerifier: program.verifier }
    expect(
      await codeOf(panel.as(undefined).call(exchangeSsoCode, { body: { ...body, codeVerifier: 'x'.repeat(43) } })),
    ).toBe('TOKEN_INVALID')
    expect(await codeOf(cyd.call(completeSsoLink, { body }))).toBe('TOKEN_INVALID')
    const next = await cyd.call(linkSsoAccount, { body: { providerId: ID, loopback: program.loopback } })
    const { url: there } = await new Browser().go(next.url, atProgram)
    const right = { code: there.searchParams.get('code') ?? '', codeVerifier: program.verifier }
    expect(await cyd.call(completeSsoLink, { body: right })).toMatchObject({ providerId: 'corp', accountId: 'cyd-2' })
    expect(await cyd.call(listSsoAccounts)).toHaveLength(2)
    const unlink = (accountId: string) => cyd.call(unlinkSsoAccount, { body: { providerId: ID, accountId } })
    expect(await unlink('cyd')).toEqual({ status: true })
    expect(await codeOf(unlink('cyd'))).toBe('NOT_FOUND')
    expect(await codeOf(unlink('cyd-2'))).toBe('LAST_SIGN_IN_METHOD')
    await cyd.call(setPassword, { body: { newPassword: 'Correct-horse-1' } })
    expect(await unlink('cyd-2')).toEqual({ status: true })
  })

  it('shows its secret to nobody', async () => {
    const shown = await panel.client.call(getProvider, { params })
    expect(shown).toMatchObject({
      clientSecret: '********',
      source: 'database',
      callbackUrl: `${panel.url}/api/auth/oauth2/callback/corp`,
    })
    const listed = await panel.as(undefined).call(listProviders)
    expect(listed).toEqual([{ id: 'corp', name: 'Corp', enabled: true, type: 'oidc' }])
    const audit = await panel.client.call(listAuditLogs, { query: { resourceId: 'corp' } })
    for (const text of [JSON.stringify([shown, listed, audit]), panel.log()]) {
      expect(text).not.toContain(provider.clientSecret)
      expect(text).not.toContain('not-the-secret-of-this-panel')
    }
  })
})
