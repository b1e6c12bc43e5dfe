import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { listAdminRoles } from '../../src/shared/api/api-keys.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import * as api from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, keyOf, openSetUpPanel, PASSWORD, person, refusal } from './accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeEach(async () => {
  panel = await openSetUpPanel()
})
afterEach(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const body = { email: 'new@example.org', username: 'new', password: PASSWORD }
const roleNamed = async (name: string): Promise<string> =>
  (await panel.admin.call(listAdminRoles, { query: {} })).find((role) => role.name === name)?.id ?? ''

describe('accounts', () => {
  it('are made with roles, listed newest first and shown', async () => {
    const roleIds = [await roleNamed('User')]
    const made = await panel.admin.call(api.createUser, { body: { ...body, firstName: 'Nell', roleIds } })
    expect(made).toMatchObject({
      name: 'Nell',
      roles: [{ name: 'User' }],
      hasPassword: true,
      banned: false,
      serverCount: 0,
    })
    const list = await panel.admin.call(api.listUsers, { query: {} })
    expect(list.map(({ username }) => username)).toEqual(['new', 'root'])
    expect(JSON.stringify(list)).not.toContain('argon2')
    const shown = await panel.admin.call(api.getUser, { params: { userId: panel.adminId } })
    expect(shown).toMatchObject({ permissions: ['*'], roles: [{ name: 'Administrator' }] })
    const { token } = await panel.client().call(login, { body: { email: 'new', password: PASSWORD } })
    expect(await panel.client(token).call(getMe)).toMatchObject({ role: 'User', permissions: ['system_error.report'] })
  })

  it('are found by text, role and ban', async () => {
    await panel.admin.call(api.createUser, { body })
    const names = async (query: { search?: string; roleId?: string; banned?: 'true' | 'false' }) =>
      (await panel.admin.call(api.listUsers, { query })).map(({ username }) => username)
    expect(await names({ search: 'NEW@' })).toEqual(['new'])
    expect(await names({ search: '_' })).toEqual([])
    expect(await names({ roleId: await roleNamed('Administrator') })).toEqual(['root'])
    expect(await names({ banned: 'true' })).toEqual([])
    expect(await names({ banned: 'false' })).toEqual(['new', 'root'])
    expect(await codeOf(panel.admin.call(api.getUser, { params: { userId: 'usr_none' } }))).toBe('USER_NOT_FOUND')
  })

  it('have addresses and names of their own, whatever the case and however parallel', async () => {
    const tries = Array.from({ length: 20 }, (_, i) =>
      panel.admin.call(api.createUser, {
        body: { ...body, username: i % 2 === 0 ? 'New' : 'nEW', email: `n${i}@example.org` },
      }),
    )
    const results = await Promise.allSettled(tries)
    expect(results.filter((result) => result.status === 'fulfilled')).toHaveLength(1)
    const codes = results.flatMap((result) => (result.status === 'rejected' ? [result.reason.code] : []))
    expect(new Set(codes)).toEqual(new Set(['USER_EXISTS']))
    const sameAddress = { ...body, username: 'other', email: 'ROOT@example.org' }
    expect(await codeOf(panel.admin.call(api.createUser, { body: sameAddress }))).toBe('USER_EXISTS')
  })

  it('get no roles without user.set_roles, and none beyond the giver', async () => {
    const administrator = await roleNamed('Administrator')
    const clerk = await person(panel, 'clerk', ['user.create'])
    const withRole = { ...body, roleIds: [administrator] }
    expect(await refusal(clerk.call(api.createUser, { body: withRole }))).toMatchObject({
      code: 'PERMISSION_DENIED',
      meta: { missing: ['user.set_roles'] },
    })
    const chief = await person(panel, 'chief', ['user.create', 'user.set_roles'])
    expect(await refusal(chief.call(api.createUser, { body: withRole }))).toMatchObject({
      code: 'PERMISSION_DENIED',
      meta: { missing: ['*'] },
    })
    const key = await keyOf(panel, panel.admin, ['user.create', 'user.set_roles'])
    expect(await codeOf(key.call(api.createUser, { body: withRole }))).toBe('PERMISSION_DENIED')
    expect(await codeOf(panel.admin.call(api.createUser, { body: { ...body, roleIds: ['role_none'] } }))).toBe(
      'ROLE_NOT_FOUND',
    )
    expect((await panel.admin.call(api.listUsers, { query: { search: 'new@' } })).length).toBe(0)
    await chief.call(api.createUser, { body: { ...body, roleIds: [chief.roleId] } })
    await clerk.call(api.createUser, { body: { ...body, email: 'n2@example.org', username: 'n2x' } })
  })
})
