import { URI } from 'otpauth'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { getMe, login, setPassword } from '../../src/shared/api/auth.ts'
import * as api from '../../src/shared/api/passkeys.ts'
import { enableTwoFactor, verifyTotp } from '../../src/shared/api/two-factor.ts'
import { banUser, createUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { PasskeyId, UserId } from '../../src/shared/kernel/ids.ts'
import { type Bent, createPasskey, type SoftPasskey } from '../authenticator.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { codeOf } from './sso/sign-ins.ts'

const PASSWORD = 'Correct-horse-1'
const ORIGIN = 'https://panel.example.org'

let panel: TestPanel
beforeAll(async () => {
  panel = await startPanel({ env: { PANEL_HTTP__PUBLIC_URL: ORIGIN } })
})
afterAll(() => panel.close())

let count = 0
let ann: Client & { readonly id: UserId; readonly email: string }
let passkey: SoftPasskey
beforeEach(async () => {
  const username = `ann-${++count}`
  const body = { email: `${username}@example.org`, username, password: PASSWORD }
  const { id } = await panel.client.call(createUser, { body })
  const { token } = await panel.as(undefined).call(login, { body: { email: body.email, password: PASSWORD } })
  ann = { ...panel.as(token), id: UserId.parse(id), email: body.email }
  passkey = createPasskey(ORIGIN)
})

async function add(key = passkey, bent?: Bent): Promise<api.Passkey> {
  const response = key.register(await ann.call(api.beginPasskey), bent)
  return ann.call(api.verifyPasskey, { body: { response, name: 'phone' } })
}

async function signIn(bent?: Bent) {
  const options = await panel.as(undefined).call(api.passkeySignInOptions)
  return panel.as(undefined).call(api.signInByPasskey, { body: { response: passkey.sign(options, bent) } })
}

describe('a passkey', () => {
  it('is made for the public address of the panel, shown without its key, renamed and removed', async () => {
    const options = await ann.call(api.beginPasskey, { body: { authenticatorAttachment: 'platform' } })
    expect(options).toMatchObject({
      rp: { id: 'panel.example.org', name: 'panel' },
      attestation: 'none',
      authenticatorSelection: { userVerification: 'required', authenticatorAttachment: 'platform' },
    })
    const made = await add()
    expect(made).toMatchObject({ name: 'phone', credentialID: passkey.id, backedUp: false, transports: ['usb'] })
    expect(Object.keys(made)).not.toEqual(expect.arrayContaining(['publicKey']))
    expect((await ann.call(api.beginPasskey)).excludeCredentials.map(({ id }) => id)).toEqual([passkey.id])
    const params = { passkeyId: PasskeyId.parse(made.id) }
    expect(await ann.call(api.renamePasskey, { params, body: { name: 'old phone' } })).toMatchObject({
      name: 'old phone',
    })
    expect(await codeOf(panel.client.call(api.renamePasskey, { params, body: { name: 'mine' } }))).toBe('NOT_FOUND')
    expect(await codeOf(panel.client.call(api.deletePasskey, { params }))).toBe('NOT_FOUND')
    expect(await ann.call(api.deletePasskey, { params })).toEqual({ status: true })
    expect(await ann.call(api.listPasskeys)).toEqual([])
    const rows = await panel.client.call(listAuditLogs, { query: { resourceId: ann.id } })
    expect(rows.map(({ action }) => action)).toEqual(
      expect.arrayContaining(['auth.passkey_add', 'auth.passkey_update', 'auth.passkey_remove']),
    )
  })

  it('signs in once per challenge, and no code is asked for after it', async () => {
    await add()
    const { totpURI } = await ann.call(enableTwoFactor, { body: { password: PASSWORD } })
    await ann.call(verifyTotp, { body: { code: URI.parse(totpURI).generate() } })
    const options = await panel.as(undefined).call(api.passkeySignInOptions)
    const response = passkey.sign(options)
    const { token } = await panel.as(undefined).call(api.signInByPasskey, { body: { response } })
    expect(await panel.as(token).call(getMe)).toMatchObject({ id: ann.id })
    expect((await ann.call(api.listPasskeys))[0]?.lastUsedAt).not.toBeNull()
    const again = panel.as(undefined).call(api.signInByPasskey, { body: { response } })
    expect(await codeOf(again)).toBe('INVALID_CREDENTIALS')
    const next = passkey.sign(await panel.as(undefined).call(api.passkeySignInOptionsRead))
    expect((await panel.as(undefined).call(api.signInByPasskey, { body: { response: next } })).userId).toBe(ann.id)
  })

  it('is refused with a challenge for another purpose, from another page, without PIN or finger', async () => {
    const forMaking = await ann.call(api.beginPasskey)
    await add()
    const { challenge } = await ann.call(api.beginPasskey)
    expect(await codeOf(signIn({ challenge }))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(signIn({ origin: 'https://panel.example.org.evil.example' }))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(signIn({ userVerified: false }))).toBe('INVALID_CREDENTIALS')
    expect((await signIn()).userId).toBe(ann.id)
    const other = createPasskey('https://elsewhere.example')
    const strange = ann.call(api.verifyPasskey, { body: { response: other.register(forMaking) } })
    expect(await codeOf(strange)).toBe('VALIDATION_ERROR')
    const unverified = createPasskey(ORIGIN).register(await ann.call(api.beginPasskey), { userVerified: false })
    expect(await codeOf(ann.call(api.verifyPasskey, { body: { response: unverified } }))).toBe('VALIDATION_ERROR')
  })

  it('is not made with a challenge of somebody else, nor twice', async () => {
    const theirs = await panel.client.call(api.beginPasskey)
    const response = passkey.register(theirs)
    expect(await codeOf(ann.call(api.verifyPasskey, { body: { response } }))).toBe('VALIDATION_ERROR')
    await add()
    expect(await codeOf(add())).toBe('CONFLICT')
  })

  it('is refused when its counter does not grow: it may be a copy', async () => {
    await add()
    await signIn({ counter: 10 })
    expect(await codeOf(signIn({ counter: 10 }))).toBe('INVALID_CREDENTIALS')
    expect(await codeOf(signIn({ counter: 4 }))).toBe('INVALID_CREDENTIALS')
    expect((await signIn({ counter: 11 })).userId).toBe(ann.id)
  })

  it('may be the last way to sign in, and then stays', async () => {
    const admin = panel.client
    const key = createPasskey(ORIGIN)
    const response = key.register(await admin.call(api.beginPasskey))
    const { id } = await admin.call(api.verifyPasskey, { body: { response } })
    const params = { passkeyId: PasskeyId.parse(id) }
    expect(await codeOf(admin.call(api.deletePasskey, { params }))).toBe('LAST_SIGN_IN_METHOD')
    await admin.call(setPassword, { body: { newPassword: PASSWORD } })
    expect(await admin.call(api.deletePasskey, { params })).toEqual({ status: true })
  })

  it('does not sign in a banned account, and wrong ones are counted', async () => {
    await add()
    await panel.client.call(banUser, { params: { userId: ann.id }, body: {} })
    expect(await codeOf(signIn())).toBe('ACCOUNT_BANNED')
    const codes: string[] = []
    for (let i = 0; i < 6; i++) codes.push(await codeOf(signIn({ origin: 'https://evil.example' })))
    expect(codes.slice(0, 5)).toEqual(Array.from({ length: 5 }, () => 'INVALID_CREDENTIALS'))
    expect(codes[5]).toBe('ACCOUNT_LOCKED')
  })
})
