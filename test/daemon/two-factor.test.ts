import { URI } from 'otpauth'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { disableTwoFactorOfUser } from '../../src/shared/api/account-security.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { changePassword, getMe, login } from '../../src/shared/api/auth.ts'
import { listLockouts } from '../../src/shared/api/lockouts.ts'
import * as api from '../../src/shared/api/two-factor.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, keyOf, openSetUpPanel, PASSWORD, person, refusal } from './accounts-panel.ts'

const STEP = 30_000
const credentials = { email: 'ann', password: PASSWORD }
const withPassword = { body: { password: PASSWORD } }

let accounts: AccountsPanel & { admin: Client; adminId: string }
let ann: Awaited<ReturnType<typeof person>>
beforeEach(async () => {
  accounts = await openSetUpPanel()
  ann = await person(accounts, 'ann', [])
})
afterEach(() => accounts.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code

/** Ann's authenticator, as her telephone would have it. */
async function secure(client: Client = ann): Promise<{ next(): string; backupCodes: readonly string[] }> {
  const { totpURI, backupCodes } = await client.call(api.enableTwoFactor, withPassword)
  const totp = URI.parse(totpURI)
  const next = (): string => {
    accounts.clock.advance(STEP) // a code of a step that was used is good no more
    return totp.generate({ timestamp: accounts.clock.nowMs() })
  }
  await client.call(api.verifyTotp, { body: { code: next() } })
  return { next, backupCodes }
}

/** Gives the password; answers the token of the sign-in that waits. */
async function pending(ip?: string): Promise<string> {
  const { code, meta } = await refusal(accounts.client(undefined, ip).call(login, { body: credentials }))
  expect(code).toBe('TWO_FACTOR_REQUIRED')
  return String(meta['token'])
}

const give = (token: string, code: string, ip?: string) =>
  accounts.client(undefined, ip).call(api.verifyTotp, { body: { token, code } })

describe('two-factor sign-in', () => {
  it('holds from the first right code on, and not before', async () => {
    expect(await ann.call(api.getTwoFactor)).toEqual({ twoFactorEnabled: false, backupCodesLeft: 0 })
    const { totpURI } = await ann.call(api.enableTwoFactor, withPassword)
    expect(totpURI).toMatch(/^otpauth:\/\/totp\/panel:ann/)
    expect(await accounts.client().call(login, { body: credentials })).toMatchObject({ userId: ann.id })
    expect(await codeOf(ann.call(api.verifyTotp, { body: { code: '000000' } }))).toBe('TWO_FACTOR_INVALID')
    expect(await accounts.client().call(login, { body: credentials })).toMatchObject({ userId: ann.id })
    const code = URI.parse(totpURI).generate({ timestamp: accounts.clock.nowMs() })
    expect(await ann.call(api.verifyTotp, { body: { code } })).toMatchObject({ userId: ann.id, token: null })
    expect(await ann.call(api.getTwoFactor)).toEqual({ twoFactorEnabled: true, backupCodesLeft: 10 })
    await pending()
    expect(await codeOf(ann.call(api.enableTwoFactor, withPassword))).toBe('CONFLICT')
  })

  it('answers 202 with a token and a cookie after the password, and a session only after the code', async () => {
    const { next } = await secure()
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${accounts.url}/api/auth/login`, {
      method: 'POST',
      headers,
      body: JSON.stringify(credentials),
    })
    expect(answer.status).toBe(202)
    const body = (await answer.json()) as { data: { token: string } } // compared below
    expect(body).toMatchObject({ success: false, code: 'TWO_FACTOR_REQUIRED', data: { twoFactorRequired: true } })
    expect(await codeOf(accounts.client(body.data.token).call(getMe))).toBe('UNAUTHENTICATED')
    const cookie = answer.headers.getSetCookie().find((text) => text.startsWith('panel_two_factor='))
    expect(cookie).toMatch(/HttpOnly.*SameSite=Lax/)
    const done = await fetch(`${accounts.url}/api/auth/two-factor/verify-totp`, {
      method: 'POST',
      headers: { ...headers, cookie: cookie?.split(';')[0] ?? '' },
      body: JSON.stringify({ code: next() }),
    })
    expect(done.status).toBe(200)
    expect(done.headers.getSetCookie().join()).toMatch(/panel_session=pst_/)
    expect(await accounts.client(done.headers.get('set-auth-token') ?? '').call(getMe)).toMatchObject({ id: ann.id })
  })

  it('takes each code once, also when two give it at the same time', async () => {
    const { next } = await secure()
    const code = next()
    const tokens = [await pending(), await pending(), await pending()]
    const results = await Promise.allSettled(tokens.map((token, i) => give(token, code, `192.0.2.${i + 10}`)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await codeOf(give(tokens[0] ?? '', code))).toMatch(/TWO_FACTOR_INVALID|UNAUTHENTICATED/)
  })

  it('uses a waiting sign-in up, and forgets it after five minutes', async () => {
    const { next } = await secure()
    const token = await pending()
    const { token: session } = await give(token, next())
    expect(await accounts.client(session ?? '').call(getMe)).toMatchObject({ username: 'ann' })
    expect(await codeOf(give(token, next()))).toBe('UNAUTHENTICATED')
    const late = await pending()
    accounts.clock.advance(300_001)
    expect(await codeOf(give(late, next()))).toBe('UNAUTHENTICATED')
  })

  it('counts wrong codes as failed sign-ins of the account at this address', async () => {
    const { next } = await secure()
    const token = await pending()
    for (let i = 0; i < 5; i++) expect(await codeOf(give(token, '000000'))).toBe('TWO_FACTOR_INVALID')
    expect(await codeOf(give(token, next()))).toBe('ACCOUNT_LOCKED')
    expect(await codeOf(accounts.client().call(login, { body: credentials }))).toBe('ACCOUNT_LOCKED')
    expect(await give(await pending('198.51.100.7'), next(), '198.51.100.7')).toMatchObject({ userId: ann.id })
  })

  it('stops guesses that come from many addresses, also at the same time', async () => {
    await accounts.db.write((tx) => accounts.deps.settings.set(tx, 'security.addressMaxAttempts', 6))
    const { next } = await secure()
    const guesses: [string, string][] = []
    for (let i = 0; i < 10; i++) guesses.push([await pending(`203.0.113.${i + 10}`), `203.0.113.${i + 10}`])
    const codes = await Promise.all(guesses.map(([token, ip]) => codeOf(give(token, '000000', ip))))
    expect(codes.filter((code) => code === 'TWO_FACTOR_INVALID')).toHaveLength(6)
    expect(await codeOf(give(await pending('203.0.113.1'), next(), '203.0.113.1'))).toBe('ACCOUNT_LOCKED')
    const [row] = await accounts.admin.call(listLockouts, { query: { search: 'ann', locked: 'true' } })
    expect(row).toMatchObject({ email: 'ann@example.org', ipAddress: '', failureCount: 6 })
  })

  it('takes each recovery code once, however it is typed', async () => {
    const { backupCodes } = await secure()
    const use = async (code: string) => {
      const token = await pending()
      return accounts.client().call(api.verifyRecoveryCode, { body: { token, code } })
    }
    const [first = '', second = ''] = backupCodes
    expect(await use(first)).toMatchObject({ userId: ann.id })
    expect(await codeOf(use(first))).toBe('TWO_FACTOR_INVALID')
    expect(await use(` ${second.replaceAll('-', ' ').toUpperCase()}`)).toMatchObject({ userId: ann.id })
    expect(await ann.call(api.getTwoFactor)).toMatchObject({ backupCodesLeft: 8 })
    const { backupCodes: fresh } = await ann.call(api.renewRecoveryCodes, withPassword)
    expect(await codeOf(use(backupCodes[2] ?? ''))).toBe('TWO_FACTOR_INVALID')
    expect(await use(fresh[0] ?? '')).toMatchObject({ userId: ann.id })
  })

  it('ends with the password, and the old codes with it', async () => {
    const { backupCodes } = await secure()
    const wrong = { body: { password: 'Wrong-horse-11' } }
    expect(await codeOf(ann.call(api.disableTwoFactor, wrong))).toBe('INVALID_CREDENTIALS')
    expect(await ann.call(api.disableTwoFactor, withPassword)).toEqual({ status: true })
    expect(await accounts.client().call(login, { body: credentials })).toMatchObject({ userId: ann.id })
    expect(await codeOf(ann.call(api.renewRecoveryCodes, withPassword))).toBe('CONFLICT')
    await secure()
    const token = await pending()
    const body = { token, code: backupCodes[0] ?? '' }
    expect(await codeOf(accounts.client().call(api.verifyRecoveryCode, { body }))).toBe('TWO_FACTOR_INVALID')
  })

  it('is not for a key with fewer rights than its user', async () => {
    const weak = await keyOf(accounts, accounts.admin, ['server.read'])
    expect(await codeOf(weak.call(api.enableTwoFactor, withPassword))).toBe('PERMISSION_DENIED')
    expect(await codeOf(weak.call(api.verifyTotp, { body: { code: '000000' } }))).toBe('PERMISSION_DENIED')
  })

  it('keeps secret and codes out of database, log and audit log', async () => {
    const { totpURI, backupCodes } = await ann.call(api.enableTwoFactor, withPassword)
    const secret = new URL(totpURI).searchParams.get('secret') ?? ''
    const rows = await accounts.db.read.selectFrom('twoFactor').selectAll().execute()
    const codes = await accounts.db.read.selectFrom('recoveryCode').selectAll().execute()
    const audit = await accounts.admin.call(listAuditLogs, { query: { action: '2fa' } })
    expect(audit).toHaveLength(1)
    const kept = JSON.stringify([rows, codes, audit]) + accounts.logged()
    for (const word of [secret, ...backupCodes, ...backupCodes.map((code) => code.replaceAll('-', ''))]) {
      expect(word.length).toBeGreaterThan(12)
      expect(kept).not.toContain(word)
    }
  })
})

it('without a key for secrets at rest nobody can begin with two-factor sign-in', async () => {
  const bare = await openSetUpPanel({ credentialKey: null })
  try {
    expect(await codeOf(bare.admin.call(api.enableTwoFactor, withPassword))).toBe('CREDENTIAL_ENCRYPTION_KEY_MISSING')
    expect(await bare.admin.call(api.getTwoFactor)).toMatchObject({ twoFactorEnabled: false })
  } finally {
    await bare.close()
  }
})

describe('a sign-in that waits for its second factor', () => {
  const NEXT = 'Battery-staple-2'

  it('ends with the password that it began with', async () => {
    const { next } = await secure()
    const token = await pending()
    await ann.call(changePassword, { body: { currentPassword: PASSWORD, newPassword: NEXT } })
    expect(await codeOf(give(token, next()))).toBe('UNAUTHENTICATED')
  })
})

describe('an administrator', () => {
  const disable = (client: Client, id: string) => {
    const userId = disableTwoFactorOfUser.params.userId.parse(id)
    return client.call(disableTwoFactorOfUser, { params: { userId } })
  }

  it('ends the second factor of who has lost it, which is audited; sign-ins that wait end with it', async () => {
    const { next } = await secure()
    const token = await pending()
    expect(await disable(accounts.admin, ann.id)).toMatchObject({ id: ann.id, twoFactorEnabled: false })
    expect(await codeOf(give(token, next()))).toBe('UNAUTHENTICATED')
    expect(await accounts.client().call(login, { body: credentials })).toMatchObject({ userId: ann.id })
    await disable(accounts.admin, ann.id)
    const rows = await accounts.admin.call(listAuditLogs, { query: { action: 'auth.2fa_disable' } })
    expect(rows).toMatchObject([{ userId: accounts.adminId, resourceId: ann.id }])
  })

  it('cannot do so for who may do more than he, nor for himself without his password', async () => {
    const helper = await person(accounts, 'helper', ['user.update', 'user.read'])
    const boss = await person(accounts, 'boss', ['user.update', 'user.read', 'node.read'])
    await secure(boss)
    expect(await codeOf(disable(helper, boss.id))).toBe('PERMISSION_DENIED')
    expect(await codeOf(disable(boss, boss.id))).toBe('USER_SELF_ACTION')
    expect(await boss.call(api.getTwoFactor)).toMatchObject({ twoFactorEnabled: true })
    expect(await disable(boss, helper.id)).toMatchObject({ twoFactorEnabled: false })
  })
})
