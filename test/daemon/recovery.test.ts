import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import * as api from '../../src/shared/api/account-recovery.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import { getProfile } from '../../src/shared/api/profile.ts'
import { enableTwoFactor } from '../../src/shared/api/two-factor.ts'
import { acceptUserInvite, inviteUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import {
  type AccountsPanel,
  HOUR,
  openAccountsPanel,
  openSetUpPanel,
  PASSWORD,
  person,
  refusal,
} from './accounts-panel.ts'

const NEXT = 'Battery-staple-2'
const EMAIL = 'ann@example.org'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeEach(async () => {
  panel = await openSetUpPanel()
  panel.post.configured = true
})
afterEach(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const forgot = (email = EMAIL) => panel.client().call(api.forgotPassword, { body: { email } })
const reset = (token: string, password = NEXT) => panel.client().call(api.resetPassword, { body: { token, password } })
const signIn = (password: string) => panel.client().call(login, { body: { email: EMAIL, password } })

async function newestToken(): Promise<string> {
  return /^Token: (.+)$/m.exec((await panel.allMails()).at(-1)?.text ?? '')?.[1] ?? ''
}

describe('a forgotten password', () => {
  it('is replaced by mail, which ends all sessions and keeps everything else', async () => {
    const ann = await person(panel, 'ann', [])
    const other = await signIn(PASSWORD)
    await forgot()
    const token = await newestToken()
    expect((await panel.allMails()).map(({ to }) => to)).toEqual([EMAIL])
    expect(await panel.client().call(api.validateReset, { query: { token } })).toEqual({ valid: true })
    await reset(token)
    for (const client of [ann, panel.client(other.token)]) {
      expect(await codeOf(client.call(getMe))).toBe('UNAUTHENTICATED')
    }
    expect(await codeOf(signIn(PASSWORD))).toBe('INVALID_CREDENTIALS')
    expect(await signIn(NEXT)).toMatchObject({ userId: ann.id })
    expect(await codeOf(reset(token, 'Third-horse-33'))).toBe('TOKEN_INVALID')
    expect(await panel.client().call(api.validateReset, { query: { token } })).toEqual({ valid: false })
    const rows = JSON.stringify(await panel.db.read.selectFrom('auditLog').selectAll().execute())
    expect(rows).toContain('auth.password_reset')
    expect(rows + panel.logged()).not.toContain(token)
  })

  it('ends the invitation of who has set one so, which may still lie in a mail', async () => {
    const { invite } = await panel.admin.call(inviteUser, { body: { email: EMAIL } })
    expect(invite.mailed).toBe(true)
    const invited = /accept-invite\?token=(\S+)/.exec((await panel.allMails()).at(-1)?.text ?? '')?.[1] ?? ''
    await forgot()
    await reset(await newestToken())
    const accept = panel.client().call(acceptUserInvite, { body: { token: invited, password: 'Third-horse-33' } })
    expect(await codeOf(accept)).toBe('INVITE_NOT_FOUND')
    expect(await signIn(NEXT)).toMatchObject({ email: EMAIL })
  })

  it('once replaced lets its owner in who has been locked out here, which is announced', async () => {
    const ann = await person(panel, 'ann', [])
    for (let i = 0; i < 5; i++) await refusal(signIn('Wrong-horse-11'))
    expect(await codeOf(signIn(PASSWORD))).toBe('ACCOUNT_LOCKED')
    await forgot()
    await reset(await newestToken())
    expect(await signIn(NEXT)).toMatchObject({ userId: ann.id })
    const events = await panel.db.read
      .selectFrom('event')
      .select('data')
      .where('type', '=', 'auth_lockout_cleared')
      .execute()
    expect(events).toHaveLength(1)
    expect(events[0]?.data).toContain(EMAIL)
  })

  it('is answered alike for an unknown address, whose only trace is the audit row', async () => {
    await person(panel, 'ann', [])
    expect(await Promise.all([forgot(), forgot('nobody@example.org')])).toEqual([null, null])
    expect((await panel.allMails()).map(({ to }) => to)).toEqual([EMAIL])
    const rows = await panel.db.read
      .selectFrom('auditLog')
      .select('details')
      .where('action', '=', 'auth.password_reset_request')
      .execute()
    expect(rows).toHaveLength(2)
  })

  it('sends three mails within a quarter of an hour at most, and answers no differently', async () => {
    await person(panel, 'ann', [])
    for (let i = 0; i < 6; i++) expect(await forgot()).toBeNull()
    expect(await panel.allMails()).toHaveLength(3)
    panel.clock.advance(15 * 60_000 + 1000)
    await forgot()
    expect(await panel.allMails()).toHaveLength(4)
  })

  it('has a token that lives an hour, is stored hashed, and dies with the address it was sent to', async () => {
    const ann = await person(panel, 'ann', [])
    await forgot()
    const late = await newestToken()
    const [row] = await panel.db.read.selectFrom('mailedToken').selectAll().execute()
    expect(JSON.stringify(row)).not.toContain(late)
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(reset(late))).toBe('TOKEN_INVALID')
    await forgot()
    const moved = await newestToken()
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ email: 'new@example.org' }).where('id', '=', ann.id).execute()
    })
    expect(await codeOf(reset(moved))).toBe('TOKEN_INVALID')
  })

  it('works once when two use the token at the same time', async () => {
    await person(panel, 'ann', [])
    await forgot()
    const token = await newestToken()
    const results = await Promise.allSettled([reset(token, NEXT), reset(token, 'Third-horse-33')])
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  it('sends nothing to who is banned, and nothing where there is no mail server', async () => {
    const ann = await person(panel, 'ann', [])
    panel.post.configured = false
    expect(await forgot()).toBeNull()
    panel.post.configured = true
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banned: 1 }).where('id', '=', ann.id).execute()
    })
    expect(await forgot()).toBeNull()
    expect(await panel.allMails()).toEqual([])
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banExpires: tx.now }).where('id', '=', ann.id).execute()
    })
    panel.clock.advance(1000)
    await forgot()
    expect(await panel.allMails()).toHaveLength(1)
  })

  it('is no way around the second factor', async () => {
    const ann = await person(panel, 'ann', [])
    await ann.call(enableTwoFactor, { body: { password: PASSWORD } })
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('twoFactor').set({ confirmedAt: tx.now }).where('userId', '=', ann.id).execute()
    })
    await forgot()
    await reset(await newestToken())
    expect(await codeOf(signIn(NEXT))).toBe('TWO_FACTOR_REQUIRED')
  })
})

describe('registration', () => {
  const register = (username = 'ann') =>
    panel.client().call(api.register, { body: { email: `${username}@example.org`, username, password: PASSWORD } })
  const allow = (allowed: boolean) =>
    panel.db.write((tx) => panel.deps.settings.set(tx, 'security.registrationEnabled', allowed))

  it('is off until an administrator allows it', async () => {
    expect(await codeOf(register())).toBe('FEATURE_DISABLED')
    await allow(true)
    expect(await register()).toMatchObject({ username: 'ann', role: 'User', permissions: ['system_error.report'] })
    await allow(false)
    expect(await codeOf(register('bob'))).toBe('FEATURE_DISABLED')
  })

  it('has the address confirmed before the first sign-in', async () => {
    await allow(true)
    expect(await register()).toMatchObject({ token: null })
    const token = await newestToken()
    expect(await codeOf(signIn('Wrong-horse-11'))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(signIn(PASSWORD))).toBe('EMAIL_NOT_VERIFIED')
    expect(await panel.allMails()).toHaveLength(2)
    expect(await codeOf(panel.client().call(api.verifyEmail, { query: { token: 'none' } }))).toBe('TOKEN_INVALID')
    expect(await panel.client().call(api.verifyEmail, { query: { token } })).toEqual({ status: true })
    const session = await signIn(PASSWORD)
    expect(await panel.client(session.token).call(getProfile)).toMatchObject({ emailVerified: true })
    expect(await codeOf(panel.client().call(api.verifyEmail, { query: { token } }))).toBe('TOKEN_INVALID')
  })

  it('signs in at once where there is no mail server, and lets the address be confirmed later', async () => {
    await allow(true)
    panel.post.configured = false
    const { token } = await register()
    const ann = panel.client(token ?? '')
    expect(await ann.call(getProfile)).toMatchObject({ emailVerified: false })
    expect(await codeOf(ann.call(api.resendVerification))).toBe('FEATURE_DISABLED')
    panel.post.configured = true
    for (let i = 0; i < 3; i++) expect(await ann.call(api.resendVerification)).toBeNull()
    const { code, meta } = await refusal(ann.call(api.resendVerification))
    expect([code, meta['retryAfterSeconds']]).toEqual(['RATE_LIMITED', 3600])
    await panel.client().call(api.verifyEmail, { query: { token: await newestToken() } })
    expect(await ann.call(getProfile)).toMatchObject({ emailVerified: true })
  })

  it('refuses names and addresses that are taken, also to two at the same time', async () => {
    await allow(true)
    const results = await Promise.allSettled([register(), register()])
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await codeOf(register('ROOT'))).toBe('USER_EXISTS')
  })

  it('waits for the setup', async () => {
    const empty = await openAccountsPanel()
    try {
      const body = { email: EMAIL, username: 'ann', password: PASSWORD }
      expect(await codeOf(empty.client().call(api.register, { body }))).toBe('SETUP_REQUIRED')
    } finally {
      await empty.close()
    }
  })
})
