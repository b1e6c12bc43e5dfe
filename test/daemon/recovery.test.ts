import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import * as api from '../../src/shared/api/account-recovery.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import { getProfile } from '../../src/shared/api/profile.ts'
import { enableTwoFactor } from '../../src/shared/api/two-factor.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsDoor, HOUR, openAccountsDoor, openSetUpDoor, PASSWORD, person, refusal } from './accounts-door.ts'

const NEXT = 'Battery-staple-2'
const EMAIL = 'ann@example.org'

let door: AccountsDoor & { admin: Client; adminId: string }
beforeEach(async () => {
  door = await openSetUpDoor()
  door.post.configured = true
})
afterEach(() => door.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const forgot = (email = EMAIL) => door.client().call(api.forgotPassword, { body: { email } })
const reset = (token: string, password = NEXT) => door.client().call(api.resetPassword, { body: { token, password } })
const signIn = (password: string) => door.client().call(login, { body: { email: EMAIL, password } })

async function newestToken(): Promise<string> {
  return /^Token: (.+)$/m.exec((await door.allMails()).at(-1)?.text ?? '')?.[1] ?? ''
}

describe('a forgotten password', () => {
  it('is replaced by mail, which ends all sessions and keeps everything else', async () => {
    const ann = await person(door, 'ann', [])
    const other = await signIn(PASSWORD)
    await forgot()
    const token = await newestToken()
    expect((await door.allMails()).map(({ to }) => to)).toEqual([EMAIL])
    expect(await door.client().call(api.validateReset, { query: { token } })).toEqual({ valid: true })
    await reset(token)
    for (const client of [ann, door.client(other.token)]) {
      expect(await codeOf(client.call(getMe))).toBe('UNAUTHENTICATED')
    }
    expect(await codeOf(signIn(PASSWORD))).toBe('INVALID_CREDENTIALS')
    expect(await signIn(NEXT)).toMatchObject({ userId: ann.id })
    expect(await codeOf(reset(token, 'Third-horse-33'))).toBe('TOKEN_INVALID')
    expect(await door.client().call(api.validateReset, { query: { token } })).toEqual({ valid: false })
    const rows = JSON.stringify(await door.db.read.selectFrom('auditLog').selectAll().execute())
    expect(rows).toContain('auth.password_reset')
    expect(rows + door.logged()).not.toContain(token)
  })

  it('once replaced lets its owner in who has been locked out here, which is announced', async () => {
    const ann = await person(door, 'ann', [])
    for (let i = 0; i < 5; i++) await refusal(signIn('Wrong-horse-11'))
    expect(await codeOf(signIn(PASSWORD))).toBe('ACCOUNT_LOCKED')
    await forgot()
    await reset(await newestToken())
    expect(await signIn(NEXT)).toMatchObject({ userId: ann.id })
    const events = await door.db.read
      .selectFrom('event')
      .select('data')
      .where('type', '=', 'auth_lockout_cleared')
      .execute()
    expect(events).toHaveLength(1)
    expect(events[0]?.data).toContain(EMAIL)
  })

  it('is answered alike for an unknown address, whose only trace is the audit row', async () => {
    await person(door, 'ann', [])
    expect(await Promise.all([forgot(), forgot('nobody@example.org')])).toEqual([null, null])
    expect((await door.allMails()).map(({ to }) => to)).toEqual([EMAIL])
    const rows = await door.db.read
      .selectFrom('auditLog')
      .select('details')
      .where('action', '=', 'auth.password_reset_request')
      .execute()
    expect(rows).toHaveLength(2)
  })

  it('sends three mails within a quarter of an hour at most, and answers no differently', async () => {
    await person(door, 'ann', [])
    for (let i = 0; i < 6; i++) expect(await forgot()).toBeNull()
    expect(await door.allMails()).toHaveLength(3)
    door.clock.advance(15 * 60_000 + 1000)
    await forgot()
    expect(await door.allMails()).toHaveLength(4)
  })

  it('has a token that lives an hour, is stored hashed, and dies with the address it was sent to', async () => {
    const ann = await person(door, 'ann', [])
    await forgot()
    const late = await newestToken()
    const [row] = await door.db.read.selectFrom('mailedToken').selectAll().execute()
    expect(JSON.stringify(row)).not.toContain(late)
    door.clock.advance(HOUR + 1000)
    expect(await codeOf(reset(late))).toBe('TOKEN_INVALID')
    await forgot()
    const moved = await newestToken()
    await door.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ email: 'new@example.org' }).where('id', '=', ann.id).execute()
    })
    expect(await codeOf(reset(moved))).toBe('TOKEN_INVALID')
  })

  it('works once when two use the token at the same time', async () => {
    await person(door, 'ann', [])
    await forgot()
    const token = await newestToken()
    const results = await Promise.allSettled([reset(token, NEXT), reset(token, 'Third-horse-33')])
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  })

  it('sends nothing to who is banned, and nothing where there is no mail server', async () => {
    const ann = await person(door, 'ann', [])
    door.post.configured = false
    expect(await forgot()).toBeNull()
    door.post.configured = true
    await door.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banned: 1 }).where('id', '=', ann.id).execute()
    })
    expect(await forgot()).toBeNull()
    expect(await door.allMails()).toEqual([])
    await door.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banExpires: tx.now }).where('id', '=', ann.id).execute()
    })
    door.clock.advance(1000)
    await forgot()
    expect(await door.allMails()).toHaveLength(1)
  })

  it('is no way around the second factor', async () => {
    const ann = await person(door, 'ann', [])
    await ann.call(enableTwoFactor, { body: { password: PASSWORD } })
    await door.db.write(async (tx) => {
      await tx.q.updateTable('twoFactor').set({ confirmedAt: tx.now }).where('userId', '=', ann.id).execute()
    })
    await forgot()
    await reset(await newestToken())
    expect(await codeOf(signIn(NEXT))).toBe('TWO_FACTOR_REQUIRED')
  })
})

describe('registration', () => {
  const register = (username = 'ann') =>
    door.client().call(api.register, { body: { email: `${username}@example.org`, username, password: PASSWORD } })
  const allow = (allowed: boolean) =>
    door.db.write((tx) => door.deps.settings.set(tx, 'security.registrationEnabled', allowed))

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
    expect(await door.allMails()).toHaveLength(2)
    expect(await codeOf(door.client().call(api.verifyEmail, { query: { token: 'none' } }))).toBe('TOKEN_INVALID')
    expect(await door.client().call(api.verifyEmail, { query: { token } })).toEqual({ status: true })
    const session = await signIn(PASSWORD)
    expect(await door.client(session.token).call(getProfile)).toMatchObject({ emailVerified: true })
    expect(await codeOf(door.client().call(api.verifyEmail, { query: { token } }))).toBe('TOKEN_INVALID')
  })

  it('signs in at once where there is no mail server, and lets the address be confirmed later', async () => {
    await allow(true)
    door.post.configured = false
    const { token } = await register()
    const ann = door.client(token ?? '')
    expect(await ann.call(getProfile)).toMatchObject({ emailVerified: false })
    expect(await codeOf(ann.call(api.resendVerification))).toBe('FEATURE_DISABLED')
    door.post.configured = true
    for (let i = 0; i < 3; i++) expect(await ann.call(api.resendVerification)).toBeNull()
    const { code, meta } = await refusal(ann.call(api.resendVerification))
    expect([code, meta['retryAfterSeconds']]).toEqual(['RATE_LIMITED', 3600])
    await door.client().call(api.verifyEmail, { query: { token: await newestToken() } })
    expect(await ann.call(getProfile)).toMatchObject({ emailVerified: true })
  })

  it('refuses names and addresses that are taken, also to two at the same time', async () => {
    await allow(true)
    const results = await Promise.allSettled([register(), register()])
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    expect(await codeOf(register('ROOT'))).toBe('USER_EXISTS')
  })

  it('waits for the setup', async () => {
    const empty = await openAccountsDoor()
    try {
      const body = { email: EMAIL, username: 'ann', password: PASSWORD }
      expect(await codeOf(empty.client().call(api.register, { body }))).toBe('SETUP_REQUIRED')
    } finally {
      await empty.close()
    }
  })
})
