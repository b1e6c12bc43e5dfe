import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { URI } from 'otpauth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey, getApiKey } from '../../src/shared/api/api-keys.ts'
import { login } from '../../src/shared/api/auth.ts'
import { getProfile } from '../../src/shared/api/profile.ts'
import { createUser } from '../../src/shared/api/users.ts'
import { PICTURE } from '../contract/inputs.ts'
import { withMailServer } from '../contract/mailbox.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { walkPanel } from './command-walk.ts'
import { SELF_SERVICE } from './self-service-paths.ts'

const PASSWORD = 'Correct horse 9 battery!'
const EMAIL = 'eve@example.org'

let panel: TestPanel
let token = ''
beforeAll(async () => {
  panel = await startPanel()
  await panel.client.call(createUser, { body: { email: EMAIL, username: 'eve', password: PASSWORD } })
  token = (await panel.as(undefined).call(login, { body: { email: EMAIL, password: PASSWORD } })).token
}, 60_000)
afterAll(() => panel.close())

const walk = walkPanel(SELF_SERVICE, () => ({ home: panel.home, url: panel.url, adminToken: token }))
const { ok, json, refused } = walk

describe('the commands of one’s own account', { timeout: 120_000 }, () => {
  it('view, edit, preferences', async () => {
    await ok(['profile', 'edit', '--first-name', 'Eve'])
    expect(await json(['profile', 'view'])).toMatchObject({ username: 'eve', firstName: 'Eve' })
    expect(await json(['profile', 'preferences', '--set', 'theme=dark', '--set', 'rows=20'])).toEqual({
      theme: 'dark',
      rows: 20,
    })
    expect(await json(['profile', 'preferences', '--unset', 'rows'])).toEqual({ theme: 'dark' })
  })

  it('avatar: set, download, delete', async () => {
    const [picture, copy] = [join(panel.home, 'me.png'), join(panel.home, 'copy.png')]
    await writeFile(picture, PICTURE)
    expect(await json(['profile', 'avatar', 'set', picture])).toMatchObject({ image: expect.stringMatching(/avatar/) })
    await ok(['profile', 'avatar', 'download', '--out', copy])
    expect(await readFile(copy)).toEqual(PICTURE)
    await ok(['profile', 'avatar', 'delete'])
  })

  it('own records and their export', async () => {
    expect(await ok(['profile', 'audit-log', '-o', 'name'])).toContain('user.update')
    expect(await json(['profile', 'api-keys'])).toEqual([])
    const exported = JSON.parse(await ok(['profile', 'export']))
    expect(exported).toMatchObject({ user: { username: 'eve' } })
  })

  it('two-factor: enable, confirm, sign in by code and recovery code, disable', async () => {
    const shown = await ok(['profile', 'two-factor', 'enable', '--password-stdin'], { input: PASSWORD })
    const uri = /otpauth:\/\/\S+/.exec(shown)?.[0] ?? ''
    const codes = shown.match(/^[0-9a-z]{4}(-[0-9a-z]{4}){3}$/gm) ?? []
    expect(shown).toMatch(/[█▀▄]{5}/)
    expect(codes).toHaveLength(10)
    const code = (steps: number): string => URI.parse(uri).generate({ timestamp: Date.now() + steps * 30_000 })
    await ok(['profile', 'two-factor', 'confirm', '--totp-stdin'], { input: code(0) })
    expect(await json(['profile', 'two-factor', 'status'])).toEqual({ twoFactorEnabled: true, backupCodesLeft: 10 })
    const signIn = ['login', panel.url, '--username', 'eve', '--password-stdin', '--name', 'eve']
    const grouped = code(1).replace(/^.../, '$& ')
    await ok([...signIn, '--totp-stdin'], { input: `${PASSWORD}\n${grouped}\n`, token: '' })
    await ok(signIn, { input: PASSWORD, token: '', env: { PANEL_TOTP: codes[0] ?? '' } })
    await refused(4, signIn, { input: PASSWORD, token: '', env: { PANEL_TOTP: codes[0] ?? '' } })
    const renewed = await ok(['profile', 'two-factor', 'codes', '--password-stdin'], { input: PASSWORD })
    expect(renewed.trim().split('\n')).toHaveLength(10)
    await ok(['profile', 'two-factor', 'disable', '--password-stdin', '--yes'], { input: PASSWORD })
    await panel.as(undefined).call(login, { body: { email: EMAIL, password: PASSWORD } })
  })

  it('login: one context for a panel however its address is typed, and nothing left behind where it fails', async () => {
    const env = { HOME: join(panel.home, 'logins'), PANEL_URL: '', DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' }
    const signIn = (url: string, ...more: string[]) => ['login', url, '--username', 'eve', '--password-stdin', ...more]
    const kept = { input: PASSWORD, token: '', env }
    await ok(signIn(panel.url, '--name', 'home'), kept)
    await ok(signIn(`${panel.url}/`), kept)
    expect(await json(['context', 'list'], kept)).toMatchObject([{ name: 'home', current: true }])
    const { expiresAt } = await json(['auth', 'status'], kept)
    expect(Date.parse(expiresAt) - Date.now()).toBeGreaterThan(6 * 86_400_000)
    const sessions = async () => (await json(['profile', 'sessions', 'list'])).length
    const before = await sessions()
    await refused(2, signIn(panel.url, '--name', 'a b'), kept)
    await refused(14, signIn(panel.url, '--name', 'safe', '--store', 'keyring'), kept)
    expect([await sessions(), await json(['context', 'list'], kept)]).toMatchObject([before, [{ name: 'home' }]])
  })

  it('users: disable-2fa, logout', async () => {
    const admin = { token: panel.adminToken }
    await ok(['profile', 'two-factor', 'enable', '--password-stdin'], { input: PASSWORD })
    expect(await json(['users', 'disable-2fa', 'eve', '--yes'], admin)).toMatchObject({ twoFactorEnabled: false })
    const other = await panel.as(undefined).call(login, { body: { email: EMAIL, password: PASSWORD } })
    expect(await json(['users', 'logout', 'eve', '--yes'], admin)).toEqual({ revoked: expect.any(Number) })
    await expect(panel.as(other.token).call(getProfile)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
    token = (await panel.as(undefined).call(login, { body: { email: EMAIL, password: PASSWORD } })).token
  })

  it('auth refresh, api-keys rotate: a new key beside the old one, for a while', async () => {
    const folder = { HOME: panel.home, PANEL_URL: '' }
    const key = async (name: string) => {
      const body = { name, allPermissions: true, expiresIn: 86_400, rateLimitMax: 9000 }
      return panel.as(panel.adminToken).call(createApiKey, { body })
    }
    const old = await key('laptop')
    const context = ['--context', 'laptop']
    await ok(['login', panel.url, '--token-stdin', '--name', 'laptop'], { input: old.key, token: '', env: folder })
    await refused(2, ['auth', 'refresh', ...context], { token: old.key, env: folder })
    const kept = { token: '', env: folder }
    const made = await json(['auth', 'refresh', '--overlap', '10m', ...context], kept)
    expect(made).toMatchObject({ context: 'laptop', oldKeyId: old.id })
    const left = Date.parse(made.oldEnds) - Date.now()
    expect([left > 8 * 60_000, left <= 10 * 60_000]).toEqual([true, true])
    const view = (keyId: typeof old.id) => panel.as(panel.adminToken).call(getApiKey, { params: { keyId } })
    const [before, after] = [await view(old.id), await view(made.keyId)]
    const { name, allPermissions, permissions, rateLimitMax, rateLimitTimeWindow, userId } = before
    expect(after).toMatchObject({ name, allPermissions, permissions, rateLimitMax, rateLimitTimeWindow, userId })
    expect(Date.parse(after.expiresAt ?? '') - Date.parse(after.createdAt)).toBeGreaterThan(86_000_000)
    const scoped = ['auth', 'refresh', '--overlap', '0', '--scopes', 'apikey.manage,server.read', ...context]
    const { keyId } = await json(scoped, kept)
    await expect(view(made.keyId)).rejects.toMatchObject({ code: 'API_KEY_NOT_FOUND' })
    expect((await view(keyId)).permissions).toEqual(['apikey.manage', 'server.read'])
    const rotated = await ok(['api-keys', 'rotate', keyId, '--overlap', '0', ...context], kept)
    expect(rotated).toMatch(/^pak_\w+/)
  })

  it('lockouts: list, delete', async () => {
    const admin = { token: panel.adminToken }
    await refused(4, ['login', panel.url, '--username', 'nobody', '--password-stdin'], { input: 'wrong', token: '' })
    const [row] = await json(['lockouts', 'list', '--search', 'nobody'], admin)
    expect(row).toMatchObject({ email: 'nobody', failureCount: 1 })
    await ok(['lockouts', 'delete', row.id, '--yes'], admin)
    await ok(['lockouts', 'delete', '--ip', '127.0.0.1', '--yes'], admin)
    // The wrong second factor of before counts for the account whatever the address.
    expect(await json(['lockouts', 'list'], admin)).toMatchObject([{ email: EMAIL, ipAddress: '' }])
    await ok(['lockouts', 'delete', '--user', EMAIL, '--yes'], admin)
    expect(await json(['lockouts', 'list'], admin)).toEqual([])
  })

  it('forgotten password, registration, confirmation, deletion', async () => {
    const nobody = { token: '' }
    const reset = await withMailServer(panel, async (mails) => {
      await ok(['auth', 'forgot-password', EMAIL], nobody)
      return mails.token(EMAIL)
    })
    const change = ['auth', 'reset-password', '--token-stdin', '--password-stdin']
    await ok(change, { ...nobody, input: `${reset}\n${PASSWORD}2\n` })
    await expect(panel.as(token).call(getProfile)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })

    const register = ['auth', 'register', '--email', 'dan@example.org', '--username', 'dan', '--password-stdin']
    await ok(['settings', 'security', 'set', '--registration-enabled'], { token: panel.adminToken })
    const body = { email: 'dan@example.org', password: PASSWORD }
    const confirm = await withMailServer(panel, async (mails) => {
      await ok(register, { ...nobody, input: PASSWORD })
      return mails.token(body.email)
    })
    await expect(panel.as(undefined).call(login, { body })).rejects.toMatchObject({ code: 'EMAIL_NOT_VERIFIED' })
    await ok(['auth', 'verify-email', '--token-stdin'], { ...nobody, input: confirm })
    const dan = (await panel.as(undefined).call(login, { body })).token
    await panel.unverify((await panel.as(dan).call(getProfile)).id)
    await ok(['profile', 'resend-verification'], { token: dan })
    await refused(2, ['profile', 'delete', '--password-stdin'], { token: dan, input: PASSWORD })
    await ok(['profile', 'delete', '--confirm', 'dan', '--password-stdin'], { token: dan, input: PASSWORD })
    await expect(panel.as(dan).call(getProfile)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
  })

  it('are all of them here', () => {
    expect(walk.left()).toEqual([])
  })
})
