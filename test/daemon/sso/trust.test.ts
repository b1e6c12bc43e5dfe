import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey, listRoles } from '../../../src/shared/api/api-keys.ts'
import { assignEveryNode } from '../../../src/shared/api/assignments.ts'
import { getMe } from '../../../src/shared/api/auth.ts'
import { getOidcConfig, updateOidcConfig } from '../../../src/shared/api/oidc-settings.ts'
import { deleteProvider, getProvider, putProvider } from '../../../src/shared/api/providers.ts'
import { addRolePermission, createRole } from '../../../src/shared/api/roles.ts'
import { acceptUserInvite, createUser, getUser, inviteUser, updateUser } from '../../../src/shared/api/users.ts'
import type { Client } from '../../../src/shared/client.ts'
import { ProviderId, RoleId, UserId } from '../../../src/shared/kernel/ids.ts'
import { type ForgingProvider, startForger } from '../../forging-provider.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { codeOf, signInBy } from './sign-ins.ts'

const PASSWORD = 'Correct-horse-1'
const SECRET = 'secret-that-the-environment-knows'

let panel: TestPanel
let forger: ForgingProvider
let clerk: Client
let administrator: RoleId
let support: RoleId
beforeAll(async () => {
  forger = await startForger()
  const env = {
    PANEL_OIDC__WHMCS_CLIENT_ID: 'panel',
    PANEL_OIDC__WHMCS_CLIENT_SECRET: SECRET,
    PANEL_OIDC__WHMCS_DISCOVERY_URL: forger.issuer,
  }
  panel = await startPanel({ env })
  const roles = await panel.client.call(listRoles)
  administrator = RoleId.parse(roles.find(({ name }) => name === 'Administrator')?.id)
  const made = await panel.client.call(createRole, { body: { name: 'Support', permissions: ['user.read'] } })
  support = RoleId.parse(made.id)
  clerk = await clientWith(['admin.read', 'admin.write', 'user.read', 'user.create', 'user.set_roles'])
})
afterAll(async () => {
  await forger.close()
  await panel.close()
})

/** A key that holds exactly these. */
async function clientWith(permissions: string[]): Promise<Client> {
  const { key } = await panel.client.call(createApiKey, { body: { name: 'some', permissions } })
  return panel.as(key)
}

const own = () => ({ clientId: 'panel', discoveryUrl: forger.issuer, allowedDomains: ['*'] })
const put = (client: Client, id: string, body: object) =>
  client.call(putProvider, { params: { providerId: ProviderId.parse(id) }, body })
const rolesOf = async (token: string | undefined) => (await panel.as(token).call(getMe)).permissions

describe('who configures a provider with few rights', () => {
  it('cannot map a group to a role beyond his own, nor make accounts without that right', async () => {
    const roleMapping = (roleId: RoleId) => [{ group: '*', roleId }]
    expect(await codeOf(put(clerk, 'mine', { ...own(), roleMapping: roleMapping(administrator) }))).toBe(
      'PERMISSION_DENIED',
    )
    expect(await codeOf(put(clerk, 'mine', { ...own(), roleMapping: roleMapping(RoleId.parse('none')) }))).toBe(
      'ROLE_NOT_FOUND',
    )
    const { id } = await panel.client.call(createRole, { body: { name: 'Of nodes', permissions: [] } })
    await panel.client.call(assignEveryNode, { body: { targetType: 'role', targetId: id } })
    expect(await codeOf(put(clerk, 'mine', { ...own(), roleMapping: roleMapping(RoleId.parse(id)) }))).toBe(
      'PERMISSION_DENIED',
    )
    const bare = await clientWith(['admin.write', 'user.read'])
    expect(await codeOf(put(bare, 'mine', { ...own(), createAccounts: true }))).toBe('PERMISSION_DENIED')
    expect(await codeOf(put(bare, 'mine', { ...own(), roleMapping: roleMapping(support) }))).toBe('PERMISSION_DENIED')
    const made = await put(clerk, 'mine', { ...own(), createAccounts: true, roleMapping: roleMapping(support) })
    expect(made).toMatchObject({ createAccounts: true, roleMapping: roleMapping(support) })
  })

  it('brings nobody a role that has grown beyond him since', async () => {
    forger.person = { sub: 'one', email: 'one@example.org', email_verified: true }
    const { token } = await signInBy(panel, 'mine')
    expect(await rolesOf(token)).toEqual(['user.read'])
    await panel.client.call(addRolePermission, { params: { roleId: support }, body: { permission: 'node.delete' } })
    expect(await rolesOf((await signInBy(panel, 'mine')).token)).toEqual([])
    forger.person = { sub: 'two', email: 'two@example.org', email_verified: true }
    expect(await rolesOf((await signInBy(panel, 'mine')).token)).toEqual([])
  })

  it('gets into no account that may do more than he', async () => {
    await put(clerk, 'mine', { linkByEmail: true })
    const account = (username: string, roleIds: string[]) =>
      panel.client.call(createUser, {
        body: { email: `${username}@example.org`, username, password: PASSWORD, roleIds },
      })
    await account('chief', [administrator])
    forger.person = { sub: 'chief', email: 'chief@example.org', email_verified: true }
    expect(await signInBy(panel, 'mine')).toMatchObject({ error: 'PERMISSION_DENIED' })
    const { id } = await account('reader', [])
    forger.person = { sub: 'reader', email: 'reader@example.org', email_verified: true }
    expect(await panel.as((await signInBy(panel, 'mine')).token).call(getMe)).toMatchObject({ id })
  })

  it('cannot point the provider of somebody with more rights elsewhere, nor delete it', async () => {
    await put(panel.client, 'theirs', { ...own(), name: 'Theirs' })
    const params = { providerId: ProviderId.parse('theirs') }
    for (const body of [
      { discoveryUrl: 'https://evil.example' },
      { clientId: 'x' },
      { linkByEmail: true },
      { allowedDomains: [] },
    ]) {
      expect(await codeOf(put(clerk, 'theirs', body))).toBe('PERMISSION_DENIED')
    }
    expect(await codeOf(clerk.call(deleteProvider, { params }))).toBe('PERMISSION_DENIED')
    expect(await put(clerk, 'theirs', { name: 'Renamed', enabled: false })).toMatchObject({
      name: 'Renamed',
      enabled: false,
    })
    expect(await panel.client.call(deleteProvider, { params })).toBeNull()
    expect(await codeOf(panel.client.call(getProvider, { params }))).toBe('PROVIDER_NOT_FOUND')
  })
})

describe('a provider', () => {
  it('whose issuer has changed knows nobody any more', async () => {
    const other = await startForger()
    await put(panel.client, 'moving', { ...own(), createAccounts: true })
    forger.person = { sub: 'mona', email: 'mona@example.org', email_verified: true }
    expect((await signInBy(panel, 'moving')).token).toBeDefined()
    await put(panel.client, 'moving', { discoveryUrl: other.issuer })
    other.person = { sub: 'mona', email: 'mona@example.org', email_verified: true }
    expect(await signInBy(panel, 'moving')).toMatchObject({ error: 'USER_EXISTS' })
    await other.close()
  })

  it('ends the invitation of whom it signs in', async () => {
    await put(panel.client, 'inviting', { ...own(), linkByEmail: true })
    const { id, invite } = await panel.client.call(inviteUser, { body: { email: 'sam@example.org' } })
    const params = { userId: UserId.parse(id) }
    await panel.client.call(updateUser, { params, body: { emailVerified: true } })
    forger.person = { sub: 'sam', email: 'sam@example.org', email_verified: true }
    expect(await panel.as((await signInBy(panel, 'inviting')).token).call(getMe)).toMatchObject({ id })
    const body = { token: invite.token ?? '', password: PASSWORD }
    expect(await codeOf(panel.as('').call(acceptUserInvite, { body }))).toBe('INVITE_NOT_FOUND')
    expect(await panel.client.call(getUser, { params })).toMatchObject({ hasPassword: false })
  })

  it('takes its roles back when it is deleted', async () => {
    const params = { providerId: ProviderId.parse('leaving') }
    await put(panel.client, 'leaving', {
      ...own(),
      createAccounts: true,
      groupClaim: 'groups',
      roleMapping: [{ group: 'chiefs', roleId: administrator }],
    })
    forger.person = { sub: 'nora', email: 'nora@example.org', email_verified: true, groups: ['chiefs'] }
    const { token } = await signInBy(panel, 'leaving')
    expect(await rolesOf(token)).toEqual(['*'])
    await panel.client.call(deleteProvider, { params })
    expect(await rolesOf(token)).toEqual([])
  })

  it('that the environment fixes says so, works, and refuses a change', async () => {
    const params = { providerId: ProviderId.parse('whmcs') }
    const shown = await panel.client.call(getProvider, { params })
    expect(shown).toMatchObject({
      source: 'env',
      clientSecret: '********',
      locked: { clientId: 'env', clientSecret: 'env' },
    })
    expect(await codeOf(put(panel.client, 'whmcs', { clientId: 'other' }))).toBe('SETTING_LOCKED')
    const change = panel.client.call(updateOidcConfig, { body: { whmcs: { clientSecret: 'another' } } })
    expect(await codeOf(change)).toBe('SETTING_LOCKED')
    await put(panel.client, 'whmcs', { clientId: 'panel', createAccounts: true, allowedDomains: ['*'] })
    const config = await panel.client.call(getOidcConfig)
    expect(config.whmcs).toEqual({
      clientId: 'panel',
      clientSecret: '********',
      discoveryUrl: forger.issuer,
      source: 'env',
    })
    forger.person = { sub: 'otto', email: 'otto@example.org', email_verified: true }
    expect((await signInBy(panel, 'whmcs')).token).toBeDefined()
    expect(panel.log()).not.toContain(SECRET)
  })
})

it('keeps no secret of a provider without a key for secrets at rest', async () => {
  const bare = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined } })
  try {
    expect(await codeOf(put(bare.client, 'corp', { ...own(), clientSecret: 'x' }))).toBe(
      'CREDENTIAL_ENCRYPTION_KEY_MISSING',
    )
    expect(await put(bare.client, 'corp', own())).toMatchObject({ clientSecret: null })
  } finally {
    await bare.close()
  }
})
