import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import * as api from '../../src/shared/api/auth.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, DAY, HOUR, keyOf, openSetUpPanel, PASSWORD, person, refusal } from './accounts-panel.ts'

const HERE = '198.51.100.1'
const ELSEWHERE = '198.51.100.2'
const wrong = { email: 'root', password: 'Wrong-horse-11' }
const right = { email: 'root', password: PASSWORD }

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeEach(async () => {
  panel = await openSetUpPanel()
})
afterEach(() => panel.close())

const signIn = (body: { email: string; password: string; rememberMe?: boolean }, ip = HERE) =>
  panel.client(undefined, ip).call(api.login, { body })
const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code

describe('signing in', () => {
  it('takes the e-mail address or the user name, in any case', async () => {
    for (const email of ['root@example.org', 'ROOT@example.org', 'root', 'Root']) {
      expect(await signIn({ ...right, email })).toMatchObject({ userId: panel.adminId, role: 'Administrator' })
    }
  })

  it('answers a wrong password and an unknown account alike', async () => {
    const answers = await Promise.all(
      [wrong, { ...right, email: 'nobody' }, { ...right, email: 'nobody@example.org' }].map(async (body) => {
        const response = await fetch(`${panel.url}/api/auth/login`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
        const { requestId: _, ...rest } = (await response.json()) as Record<string, unknown> // the body of a refusal is an object
        return { status: response.status, ...rest }
      }),
    )
    expect(answers[0]).toMatchObject({ status: 401, code: 'INVALID_CREDENTIALS' })
    expect(answers[1]).toEqual(answers[0])
    expect(answers[2]).toEqual(answers[0])
  })

  it('says that an account is banned only to who knows its password', async () => {
    const mallory = await person(panel, 'mallory', [])
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ banned: 1, banReason: 'noise' }).where('id', '=', mallory.id).execute()
      tx.onCommit(() => panel.credentials.changed())
    })
    expect(await refusal(signIn({ email: 'mallory', password: PASSWORD }))).toMatchObject({
      code: 'ACCOUNT_BANNED',
      meta: { banReason: 'noise', banExpires: null },
    })
    expect(await codeOf(signIn({ email: 'mallory', password: wrong.password }))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(mallory.call(api.getMe))).toBe('UNAUTHENTICATED')
  })

  it('audits successes and failures, and logs no secret', async () => {
    await signIn(right)
    await refusal(signIn(wrong))
    const rows = await panel.admin.call(listAuditLogs, { query: { action: 'auth.login' } })
    expect(rows.map((row) => row.action)).toEqual(['auth.login_failed', 'auth.login'])
    expect(rows[0]).toMatchObject({ ipAddress: HERE, resourceId: panel.adminId, userId: null })
    expect(JSON.stringify(rows) + panel.logged()).not.toMatch(/Wrong-horse|Correct-horse|pst_/)
  })
})

describe('lockout', () => {
  it('checks exactly the configured number of 200 parallel wrong passwords', async () => {
    const codes = await Promise.all(Array.from({ length: 200 }, () => codeOf(signIn(wrong))))
    expect(codes.filter((code) => code === 'INVALID_CREDENTIALS')).toHaveLength(5)
    expect(codes.filter((code) => code === 'ACCOUNT_LOCKED')).toHaveLength(195)
    const rows = await panel.admin.call(listAuditLogs, { query: { action: 'auth.login_failed' } })
    expect(rows).toHaveLength(5)
    const events = await panel.db.read
      .selectFrom('event')
      .selectAll()
      .where('type', '=', 'auth_lockout_created')
      .execute()
    expect(events).toHaveLength(1)
  })

  it('lets 60 parallel right passwords in', { tags: ['long'] }, async () => {
    const results = await Promise.allSettled(Array.from({ length: 60 }, () => signIn(right)))
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(60)
  })

  it('refuses the right password from the locked address, says for how long, and not from elsewhere', async () => {
    for (let i = 0; i < 5; i++) expect(await codeOf(signIn(wrong))).toBe('INVALID_CREDENTIALS')
    const refused = await refusal(signIn(right))
    expect(refused.code).toBe('ACCOUNT_LOCKED')
    expect(refused.meta['retryAfterSeconds']).toBeGreaterThan(890)
    expect(refused.meta['retryAfterSeconds']).toBeLessThanOrEqual(900)
    expect(await signIn(right, ELSEWHERE)).toMatchObject({ userId: panel.adminId })
    expect(await codeOf(signIn(right))).toBe('ACCOUNT_LOCKED')
  })

  it('counts the address and the user name as one account', async () => {
    for (const email of ['root', 'root@example.org', 'ROOT', 'Root@Example.org', 'root'])
      await refusal(signIn({ ...wrong, email }))
    expect(await codeOf(signIn({ ...right, email: 'root@example.org' }))).toBe('ACCOUNT_LOCKED')
  })

  it('ends after its duration and doubles with each repeat up to an hour', async () => {
    for (const minutes of [15, 30, 60, 60]) {
      for (let i = 0; i < 5; i++) expect(await codeOf(signIn(wrong))).toBe('INVALID_CREDENTIALS')
      const { meta } = await refusal(signIn(right))
      expect(Math.ceil(Number(meta['retryAfterSeconds']) / 60)).toBe(minutes)
      panel.clock.advance(minutes * 60_000 + 1000)
    }
    expect(await signIn(right)).toMatchObject({ userId: panel.adminId })
    for (let i = 0; i < 5; i++) await refusal(signIn(wrong))
    expect(Math.ceil(Number((await refusal(signIn(right))).meta['retryAfterSeconds']) / 60)).toBe(15)
  })

  it('forgets failures with a success and with the end of the window', async () => {
    for (let i = 0; i < 4; i++) await refusal(signIn(wrong))
    await signIn(right)
    for (let i = 0; i < 4; i++) await refusal(signIn(wrong))
    panel.clock.advance(15 * 60_000 + 1000)
    for (let i = 0; i < 4; i++) await refusal(signIn(wrong))
    expect(await signIn(right)).toMatchObject({ userId: panel.adminId })
  })

  it('locks an address that fails with many accounts, known or not', async () => {
    for (let i = 0; i < 20; i++)
      expect(await codeOf(signIn({ ...wrong, email: `nobody${i}` }))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(signIn(right))).toBe('ACCOUNT_LOCKED')
    expect(await signIn(right, ELSEWHERE)).toMatchObject({ userId: panel.adminId })
  })

  it('counts the hosts of one IPv6 network as one address', async () => {
    for (let i = 1; i <= 5; i++) await refusal(signIn(wrong, `2001:db8:0:1::${i}`))
    expect(await codeOf(signIn(right, '2001:db8:0:1:ffff::9'))).toBe('ACCOUNT_LOCKED')
    expect(await signIn(right, '2001:db8:0:2::1')).toMatchObject({ userId: panel.adminId })
  })

  it('counts an address as one however it is written', async () => {
    const forms = ['::ffff:9.8.7.6', '::FFFF:908:706', '0:0:0:0:0:ffff:0908:0706', '9.8.7.6', '::ffff:0908:706']
    for (const form of forms) await refusal(signIn(wrong, form))
    for (const form of forms) expect([form, await codeOf(signIn(right, form))]).toEqual([form, 'ACCOUNT_LOCKED'])
    expect(await signIn(right, '::ffff:9.8.7.7')).toMatchObject({ userId: panel.adminId })
  })
})

describe('sessions', () => {
  it('end after a day when they are not kept', async () => {
    const { token } = await signIn(right)
    panel.clock.advance(DAY - HOUR)
    await panel.client(token).call(api.getMe)
    panel.clock.advance(2 * HOUR)
    expect(await codeOf(panel.client(token).call(api.getMe))).toBe('AUTH_EXPIRED')
  })

  it('that are kept live seven days from their last use', async () => {
    const { token } = await signIn({ ...right, rememberMe: true })
    for (let i = 0; i < 4; i++) {
      panel.clock.advance(6 * DAY)
      await panel.client(token).call(api.getMe)
      await panel.credentials.flush()
      panel.credentials.changed()
    }
    panel.clock.advance(7 * DAY + HOUR)
    expect(await codeOf(panel.client(token).call(api.getMe))).toBe('AUTH_EXPIRED')
  })

  it('are listed without their tokens and revoked at once', async () => {
    const first = await signIn(right)
    const second = await signIn(right)
    const mine = panel.client(second.token)
    const list = await mine.call(api.listSessions, { query: {} })
    expect(list).toHaveLength(3)
    expect(list[0]).toMatchObject({ current: true, ipAddress: HERE })
    expect(JSON.stringify(list)).not.toContain('pst_')
    const other = list[1]?.id ?? ''
    await panel.client(first.token).call(api.getMe)
    await mine.call(api.revokeSession, { params: { sessionId: other } })
    expect(await codeOf(panel.client(first.token).call(api.getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(mine.call(api.revokeSession, { params: { sessionId: other } }))).toBe('NOT_FOUND')
    expect(await mine.call(api.revokeOtherSessions)).toEqual({ revoked: 1 })
    expect(await codeOf(panel.admin.call(api.getMe))).toBe('UNAUTHENTICATED')
    await mine.call(api.logout)
    expect(await codeOf(mine.call(api.getMe))).toBe('UNAUTHENTICATED')
  })

  it('that have expired are not among those that are said to end', async () => {
    await signIn(right)
    panel.clock.advance(2 * DAY)
    const { token } = await signIn(right)
    expect(await panel.client(token).call(api.revokeOtherSessions)).toEqual({ revoked: 0 })
  })

  it('in a cookie write only from pages of this panel', async () => {
    const { token } = await signIn(right)
    const host = new URL(panel.url).host
    const statusFrom = async (headers: Record<string, string>) => {
      const cookie = `panel_session=${token}`
      return (
        await fetch(`${panel.url}/api/auth/profile/sessions`, { method: 'DELETE', headers: { cookie, ...headers } })
      ).status
    }
    for (const headers of [
      {},
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'cross-site', origin: `https://${host}` },
    ]) {
      expect(await statusFrom(headers), JSON.stringify(headers)).toBe(403)
    }
    expect(await statusFrom({ origin: panel.url })).toBe(200)
    expect(await statusFrom({ 'sec-fetch-site': 'same-origin' })).toBe(200)
    const cookie = `panel_session=${token}`
    expect((await fetch(`${panel.url}/api/auth/me`, { headers: { cookie } })).status).toBe(200)
  })

  it('of others cannot be revoked', async () => {
    const eve = await person(panel, 'eve', [])
    const [session] = await panel.admin.call(api.listSessions, { query: {} })
    expect(await codeOf(eve.call(api.revokeSession, { params: { sessionId: session?.id ?? '' } }))).toBe('NOT_FOUND')
    await panel.admin.call(api.getMe)
  })
})

describe('passwords', () => {
  const NEXT = 'Battery-staple-2'

  it('are changed with the current one, and other sessions end when asked', async () => {
    const { token } = await signIn(right)
    const body = { currentPassword: PASSWORD, newPassword: NEXT, revokeOtherSessions: true }
    await panel.client(token, HERE).call(api.changePassword, { body })
    await panel.client(token).call(api.getMe)
    expect(await codeOf(panel.admin.call(api.getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(signIn(right))).toBe('INVALID_CREDENTIALS')
    expect(await signIn({ ...right, password: NEXT })).toMatchObject({ userId: panel.adminId })
  })

  it('cannot be guessed through the change', async () => {
    const body = { currentPassword: wrong.password, newPassword: NEXT }
    const codes = await Promise.all(
      Array.from({ length: 30 }, () => codeOf(panel.admin.call(api.changePassword, { body }))),
    )
    expect(codes.filter((code) => code === 'INVALID_CREDENTIALS')).toHaveLength(5)
    expect(codes.filter((code) => code === 'ACCOUNT_LOCKED')).toHaveLength(25)
  })

  it('are set only where there is none, and not by a key with fewer rights than its user', async () => {
    expect(await codeOf(panel.admin.call(api.setPassword, { body: { newPassword: NEXT } }))).toBe('CONFLICT')
    await panel.db.write(async (tx) => {
      await tx.q.updateTable('user').set({ passwordHash: null }).where('id', '=', panel.adminId).execute()
    })
    expect(await codeOf(signIn(right))).toBe('INVALID_CREDENTIALS')
    const body = { currentPassword: PASSWORD, newPassword: NEXT }
    await expect(panel.admin.call(api.changePassword, { body })).rejects.toThrow('has no password yet')
    const weak = await keyOf(panel, panel.admin, ['server.read'])
    expect(await codeOf(weak.call(api.setPassword, { body: { newPassword: NEXT } }))).toBe('PERMISSION_DENIED')
    const whole = await keyOf(panel, panel.admin, 'all')
    await whole.call(api.setPassword, { body: { newPassword: NEXT } })
    expect(await signIn({ ...right, password: NEXT })).toMatchObject({ userId: panel.adminId })
  })
})
