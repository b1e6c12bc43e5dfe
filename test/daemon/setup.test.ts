import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createApiKeyRow, localApiKey } from '../../src/daemon/features/accounts/auth/api-key-rows.ts'
import { createFirstAdmin, LOCAL_ADMIN } from '../../src/daemon/features/accounts/auth/first-admin.ts'
import { listRoles } from '../../src/shared/api/api-keys.ts'
import { completeSetup, getMe, getSetupStatus, login } from '../../src/shared/api/auth.ts'
import { type AccountsPanel, openAccountsPanel, PASSWORD, refusal } from './accounts-panel.ts'
import { SETUP_TOKEN } from './routes-panel.ts'

const body = { setupToken: SETUP_TOKEN, email: 'Root@Example.org', username: 'root', password: PASSWORD }

describe('the first setup', () => {
  let panel: AccountsPanel
  beforeEach(async () => {
    panel = await openAccountsPanel()
  })
  afterEach(() => panel.close())

  it('makes the administrator, both roles and a session', async () => {
    expect(await panel.client().call(getSetupStatus)).toEqual({ setupRequired: true })
    const made = await panel.client().call(completeSetup, { body: { ...body, panelName: 'Home' } })
    expect(made).toMatchObject({
      email: 'root@example.org',
      role: 'Administrator',
      permissions: ['*'],
      panelName: 'Home',
    })
    expect(await panel.client().call(getSetupStatus)).toEqual({ setupRequired: false })
    const admin = panel.client(made.token)
    expect(await admin.call(getMe)).toMatchObject({ id: made.id, credential: { kind: 'session' } })
    const roles = await admin.call(listRoles, { query: {} })
    expect(roles.map(({ name, permissions, userCount }) => ({ name, permissions, userCount }))).toEqual([
      { name: 'Administrator', permissions: ['*'], userCount: 1 },
      { name: 'User', permissions: ['system_error.report'], userCount: 0 },
    ])
  })

  it('sets the session cookie for browsers', async () => {
    const response = await fetch(`${panel.url}/api/setup/complete`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    expect(response.status).toBe(201)
    const cookie = response.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(/^panel_session=pst_/)
    expect(cookie).toMatch(/HttpOnly/)
    expect(cookie).toMatch(/SameSite=Lax/)
    const me = await fetch(`${panel.url}/api/auth/me`, { headers: { cookie: cookie.split(';')[0] ?? '' } })
    expect(me.status).toBe(200)
  })

  it('refuses a missing and a wrong token', async () => {
    const { setupToken: _, ...without } = body
    expect(await refusal(panel.client().call(completeSetup, { body: without }))).toMatchObject({
      code: 'SETUP_TOKEN_INVALID',
    })
    const wrong = { ...body, setupToken: `${SETUP_TOKEN}x` }
    expect(await refusal(panel.client().call(completeSetup, { body: wrong }))).toMatchObject({
      code: 'SETUP_TOKEN_INVALID',
    })
    expect(await panel.client().call(getSetupStatus)).toEqual({ setupRequired: true })
  })

  it('lets exactly one of a hundred parallel calls through', async () => {
    const calls = Array.from({ length: 100 }, (_, i) =>
      panel.client().call(completeSetup, { body: { ...body, email: `root${i}@example.org`, username: `root${i}` } }),
    )
    const results = await Promise.allSettled(calls)
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1)
    const codes = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []))
    expect(new Set(codes)).toEqual(new Set(['SETUP_ALREADY_COMPLETE']))
    expect(await panel.db.read.selectFrom('user').selectAll().execute()).toHaveLength(1)
    expect(await panel.db.read.selectFrom('role').selectAll().execute()).toHaveLength(2)
  })

  it('happens once also among transactions of one commit', async () => {
    const tries = Array.from({ length: 20 }, (_, i) => {
      const admin = { email: `root${i}@example.org`, username: `root${i}`, passwordHash: null, origin: null }
      return panel.db.write((tx) => createFirstAdmin(tx, panel.deps, admin))
    })
    const results = await Promise.allSettled(tries)
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', ...Array(19).fill('rejected')])
    const codes = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []))
    expect(new Set(codes)).toEqual(new Set(['SETUP_ALREADY_COMPLETE']))
    expect(await panel.db.read.selectFrom('user').selectAll().execute()).toHaveLength(1)
  })

  it('answers a sign-in before it with SETUP_REQUIRED', async () => {
    const call = panel.client().call(login, { body: { email: 'root', password: PASSWORD } })
    expect(await refusal(call)).toMatchObject({ code: 'SETUP_REQUIRED' })
  })

  it('can be done by the daemon itself, with a key in the place of a password', async () => {
    const { token } = await panel.db.write(async (tx) => {
      const { userId } = await createFirstAdmin(tx, panel.deps, { ...LOCAL_ADMIN, origin: null })
      return createApiKeyRow(tx, panel.clock, localApiKey(userId))
    })
    expect(await panel.client().call(getSetupStatus)).toEqual({ setupRequired: false })
    const me = await panel.client(token).call(getMe)
    expect(me).toMatchObject({ username: 'admin', permissions: ['*'], credential: { kind: 'apiKey', expiresAt: null } })
    expect(await refusal(panel.client().call(completeSetup, { body }))).toMatchObject({
      code: 'SETUP_ALREADY_COMPLETE',
    })
    const call = panel.client().call(login, { body: { email: 'admin', password: PASSWORD } })
    expect(await refusal(call)).toMatchObject({ code: 'INVALID_CREDENTIALS' })
  })

  it('refuses a weak password', async () => {
    const call = panel.client().call(completeSetup, { body: { ...body, password: 'password' } })
    expect(await refusal(call)).toMatchObject({ code: 'VALIDATION_ERROR' })
  })
})
