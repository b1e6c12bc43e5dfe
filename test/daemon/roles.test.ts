import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { listRoles } from '../../src/shared/api/api-keys.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import * as api from '../../src/shared/api/roles.ts'
import { listUsers } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import { type AccountsPanel, keyOf, openSetUpPanel, person, refusal } from './accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
let administrator: string
beforeAll(async () => {
  panel = await openSetUpPanel()
  const roles = await panel.admin.call(listRoles, { query: {} })
  administrator = roles.find(({ name }) => name === 'Administrator')?.id ?? ''
})
afterAll(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const make = (name: string, permissions: string[] = []) =>
  panel.admin.call(api.createRole, { body: { name, permissions } })
const actions = async (resourceId: string): Promise<string[]> =>
  (await panel.admin.call(listAuditLogs, { query: { resourceId } })).map(({ action }) => action)

describe('a role', () => {
  it('is made, shown with its members, edited and deleted, and each leaves its trace', async () => {
    const { id } = await make('helpers', ['server.read', 'server.read', 'node.read:node_1'])
    const params = { roleId: id }
    expect(await panel.admin.call(api.getRole, { params })).toMatchObject({
      name: 'helpers',
      permissions: ['server.read', 'node.read:node_1'],
      protected: false,
      users: [],
      userCount: 0,
    })
    const body = { name: 'Helpers', description: 'they help', permissions: ['server.read', 'console.read'] }
    expect(await panel.admin.call(api.updateRole, { params, body })).toMatchObject(body)
    expect(await panel.admin.call(api.updateRole, { params, body })).toMatchObject(body)
    await panel.admin.call(api.addRolePermission, { params, body: { permission: 'file.read' } })
    expect(await codeOf(panel.admin.call(api.addRolePermission, { params, body: { permission: 'file.read' } }))).toBe(
      'CONFLICT',
    )
    const gone = { params: { ...params, permission: 'server.read' } }
    expect(await panel.admin.call(api.removeRolePermission, gone)).toMatchObject({
      permissions: ['console.read', 'file.read'],
    })
    expect(await codeOf(panel.admin.call(api.removeRolePermission, gone))).toBe('NOT_FOUND')
    await panel.admin.call(api.deleteRole, { params })
    expect(await codeOf(panel.admin.call(api.getRole, { params }))).toBe('ROLE_NOT_FOUND')
    expect(await actions(id)).toEqual([
      'role.delete',
      'role.permission_remove',
      'role.permission_add',
      'role.update',
      'role.create',
    ])
  })

  it('has a name of its own whatever the case, and only permissions that exist', async () => {
    await make('Crew')
    expect(await codeOf(make('crew'))).toBe('ROLE_NAME_TAKEN')
    const other = await make('Other crew')
    const rename = { params: { roleId: other.id }, body: { name: 'CREW' } }
    expect(await codeOf(panel.admin.call(api.updateRole, rename))).toBe('ROLE_NAME_TAKEN')
    for (const permission of ['server.*', 'nothing', 'server.read:', '*:srv_1', '']) {
      expect(await codeOf(make('Wild', [permission]))).toBe('VALIDATION_ERROR')
    }
  })

  it('refuses names with control characters', async () => {
    for (const name of ['a\u0000b', 'two\nlines']) expect(await codeOf(make(name, []))).toBe('VALIDATION_ERROR')
  })

  it('is kept while somebody has it', async () => {
    const { id } = await make('kept')
    const ann = await person(panel, 'kept-ann', [])
    const params = { roleId: id, userId: ann.id }
    await panel.admin.call(api.addRoleMember, { params })
    expect(await codeOf(panel.admin.call(api.addRoleMember, { params }))).toBe('CONFLICT')
    expect(await refusal(panel.admin.call(api.deleteRole, { params: { roleId: id } }))).toMatchObject({
      code: 'ROLE_IN_USE',
      meta: { userCount: 1 },
    })
    const members = await panel.admin.call(listUsers, { query: { roleId: id } })
    expect(members.map(({ username }) => username)).toEqual(['kept-ann'])
    await panel.admin.call(api.removeRoleMember, { params })
    expect(await codeOf(panel.admin.call(api.removeRoleMember, { params }))).toBe('NOT_FOUND')
    await panel.admin.call(api.deleteRole, { params: { roleId: id } })
  })

  it('that is built in stays as it is, and the last administrator keeps it', async () => {
    const params = { roleId: administrator }
    const tries = [
      panel.admin.call(api.updateRole, { params, body: { name: 'x' } }),
      panel.admin.call(api.deleteRole, { params }),
      panel.admin.call(api.addRolePermission, { params, body: { permission: 'node.read' } }),
      panel.admin.call(api.removeRolePermission, { params: { ...params, permission: '*' } }),
    ]
    expect(await Promise.all(tries.map(codeOf))).toEqual(Array(4).fill('ROLE_PROTECTED'))
    const last = { params: { roleId: administrator, userId: panel.adminId } }
    expect(await codeOf(panel.admin.call(api.removeRoleMember, last))).toBe('LAST_ADMIN')
    expect((await panel.admin.call(getMe)).permissions).toEqual(['*'])
  })

  it('of the last who may do everything cannot lose that', async () => {
    const all = await make('all', ['*'])
    await panel.admin.call(api.addRoleMember, { params: { roleId: all.id, userId: panel.adminId } })
    await panel.admin.call(api.removeRoleMember, { params: { roleId: administrator, userId: panel.adminId } })
    const params = { roleId: all.id }
    const less = panel.admin.call(api.updateRole, { params, body: { permissions: ['node.read'] } })
    expect(await codeOf(less)).toBe('LAST_ADMIN')
    const star = panel.admin.call(api.removeRolePermission, { params: { ...params, permission: '*' } })
    expect(await codeOf(star)).toBe('LAST_ADMIN')
    await panel.admin.call(api.addRoleMember, { params: { roleId: administrator, userId: panel.adminId } })
    await panel.admin.call(api.updateRole, { params, body: { permissions: ['node.read'] } })
  })

  it('works at once for who has it, also for keys', async () => {
    const { id } = await make('swift')
    const ann = await person(panel, 'swift-ann', ['apikey.manage'])
    await panel.admin.call(api.addRoleMember, { params: { roleId: id, userId: ann.id } })
    await panel.admin.call(api.addRolePermission, { params: { roleId: id }, body: { permission: 'role.read' } })
    const key = await keyOf(panel, ann, ['role.read'])
    expect(await key.call(listRoles, { query: {} })).toContainEqual(expect.objectContaining({ id }))
    await panel.admin.call(api.removeRoleMember, { params: { roleId: id, userId: ann.id } })
    expect(await codeOf(key.call(listRoles, { query: {} }))).toBe('PERMISSION_DENIED')
  })

  it('is shown to its holder without user.read, and those of others are not', async () => {
    const ann = await person(panel, 'looks', ['node.read'])
    const own = await ann.call(api.getUserRoles, { params: { userId: ann.id } })
    expect(own).toMatchObject({ user: { username: 'looks' }, roles: [{ name: 'looks' }], permissions: ['node.read'] })
    const others = ann.call(api.getUserRoles, { params: { userId: panel.adminId } })
    expect(await codeOf(others)).toBe('PERMISSION_DENIED')
  })
})

describe('presets', () => {
  it('are four, and each can be made a role', async () => {
    const presets = await panel.admin.call(api.getRolePresets)
    expect(presets.map(({ key }) => key)).toEqual(['administrator', 'moderator', 'user', 'support'])
    for (const { key, permissions } of presets) {
      expect(await make(`from ${key}`, permissions)).toMatchObject({ permissions })
    }
  })
})
