import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as access from '../../src/shared/api/access.ts'
import { createApiKey, listRoles, updateApiKey } from '../../src/shared/api/api-keys.ts'
import * as nodes from '../../src/shared/api/assignments.ts'
import { changePassword, getMe, setPassword } from '../../src/shared/api/auth.ts'
import * as roles from '../../src/shared/api/roles.ts'
import * as users from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import type { ApiKeyId } from '../../src/shared/kernel/ids.ts'
import { OWNER_PERMISSIONS, PERMISSIONS } from '../../src/shared/kernel/permissions.ts'
import {
  type AccountsPanel,
  HOUR,
  keyOf,
  openSetUpPanel,
  PASSWORD,
  person,
  refusal,
  serverOf,
} from './accounts-panel.ts'

type Person = Awaited<ReturnType<typeof person>>

/** Everything that lets somebody manage others, and nothing of what they may do. */
const MANAGES = [
  'user.read', 'user.create', 'user.update', 'user.delete', 'user.ban', 'user.unban', 'user.set_roles',
  'role.read', 'role.create', 'role.update', 'role.delete', 'node.assign', 'apikey.manage', 'admin.write',
] // biome-ignore format: a list
const OTHER = 'Another-horse-22'

let panel: AccountsPanel & { admin: Client; adminId: string }
let administrator: string
let manager: Person
/** A key of the administrator that manages and does nothing else. */
let key: Client & { id: string; token: string }
let owner: Person
let serverId: string
let nodeId: string
beforeAll(async () => {
  panel = await openSetUpPanel()
  administrator =
    (await panel.admin.call(listRoles, { query: {} })).find(({ name }) => name === 'Administrator')?.id ?? ''
  manager = await person(panel, 'manager', MANAGES)
  key = await keyOf(panel, panel.admin, MANAGES)
  owner = await person(panel, 'owner', [])
  serverId = await serverOf(panel, owner.id)
  const row = await panel.db.read.selectFrom('server').select('nodeId').where('id', '=', serverId).executeTakeFirst()
  nodeId = row?.nodeId ?? ''
})
afterAll(() => panel.close())

const missing = async (call: Promise<unknown>): Promise<unknown> => {
  const { code, meta } = await refusal(call)
  return code === 'PERMISSION_DENIED' ? meta['missing'] : code
}
const both = (): readonly (readonly [string, Client])[] => [
  ['a manager', manager],
  ["the administrator's key", key],
]

describe('nobody gets or passes on what he does not hold', () => {
  it('by making or editing a key', async () => {
    for (const [, by] of both()) {
      for (const name of ['*', 'server.read', 'node.read:node_1', `server.start:${serverId}`]) {
        const body = { name: 'k', permissions: [name] }
        expect(await missing(by.call(createApiKey, { body }))).toEqual([name])
      }
    }
    const all = { body: { name: 'k', allPermissions: true } }
    expect(await missing(key.call(createApiKey, all))).toEqual(['*'])
    const raise = { params: { keyId: key.id as never }, body: { permissions: ['*'] } }
    expect(await missing(key.call(updateApiKey, raise))).toEqual(['*'])
  })

  it('by a key that no limit of requests holds for', async () => {
    const keeper = await person(panel, 'keeper', ['apikey.manage'])
    const body = { name: 'k', rateLimitEnabled: false }
    expect(await missing(keeper.call(createApiKey, { body }))).toEqual(['admin.write'])
    expect(await panel.admin.call(createApiKey, { body })).toMatchObject({ rateLimitEnabled: false })
  })

  it('by a key that was switched off, or has expired', async () => {
    const some = await panel.admin.call(createApiKey, { body: { name: 'some', permissions: ['file.write'] } })
    const whole = await panel.admin.call(createApiKey, {
      body: { name: 'whole', allPermissions: true, expiresIn: 3600 },
    })
    const edit = (by: Client, one: { id: ApiKeyId }, body: object) =>
      by.call(updateApiKey, { params: { keyId: one.id }, body })
    for (const one of [some, whole]) await edit(panel.admin, one, { enabled: false })
    for (const [, by] of both()) {
      expect(await missing(edit(by, some, { enabled: true }))).toEqual(['file.write'])
      for (const body of [{ enabled: true }, { expiresAt: null }]) {
        expect(await missing(edit(by, whole, body))).toEqual(['*'])
      }
      expect(await edit(by, some, { permissions: ['user.read'], enabled: true })).toMatchObject({ enabled: true })
      await edit(panel.admin, some, { permissions: ['file.write'], enabled: false })
    }
    const far = new Date(panel.clock.nowMs() + 2 * HOUR).toISOString()
    expect(await edit(panel.admin, whole, { enabled: true, expiresAt: far })).toMatchObject({ enabled: true })
  })

  it('by making, editing or giving a role', async () => {
    const high = await panel.admin.call(roles.createRole, { body: { name: 'high', permissions: ['file.write'] } })
    const low = await panel.admin.call(roles.createRole, { body: { name: 'low', permissions: ['user.read'] } })
    for (const [, by] of both()) {
      expect(await missing(by.call(roles.createRole, { body: { name: 'mine', permissions: ['*'] } }))).toEqual(['*'])
      const params = { roleId: low.id }
      const edits = [
        by.call(roles.updateRole, { params, body: { permissions: ['user.read', 'console.write'] } }),
        by.call(roles.addRolePermission, { params, body: { permission: 'console.write' } }),
      ]
      for (const tried of await Promise.all(edits.map(missing))) expect(tried).toEqual(['console.write'])
      const above = { params: { roleId: high.id } }
      const touches = [
        by.call(roles.updateRole, { ...above, body: { permissions: [] } }),
        by.call(roles.deleteRole, above),
        by.call(roles.addRoleMember, { params: { roleId: high.id, userId: manager.id } }),
        by.call(users.updateUser, { params: { userId: manager.id }, body: { roleIds: [manager.roleId, high.id] } }),
        by.call(users.createUser, {
          body: { email: 'x@example.org', username: 'xxx', password: PASSWORD, roleIds: [high.id] },
        }),
        by.call(users.inviteUser, { body: { email: 'x@example.org', roleIds: [high.id] } }),
      ]
      for (const tried of await Promise.all(touches.map(missing))) expect(tried).toEqual(['file.write'])
    }
    expect(
      await missing(manager.call(roles.addRoleMember, { params: { roleId: administrator, userId: manager.id } })),
    ).toEqual(['*'])
  })

  it('by a role that has nodes', async () => {
    const { id: roleId } = await panel.admin.call(roles.createRole, { body: { name: 'of nodes', permissions: [] } })
    await panel.admin.call(nodes.assignNode, { params: { nodeId }, body: { targetType: 'role', targetId: roleId } })
    const all = [...OWNER_PERMISSIONS, 'node.read', 'node.view_stats', 'server.create']
    const account = { email: 'nodes@example.org', username: 'of-nodes', password: PASSWORD, roleIds: [roleId] }
    for (const [, by] of both()) {
      const tries = [
        by.call(roles.addRoleMember, { params: { roleId, userId: manager.id } }),
        by.call(users.updateUser, { params: { userId: manager.id }, body: { roleIds: [manager.roleId, roleId] } }),
        by.call(users.createUser, { body: account }),
        by.call(users.inviteUser, { body: { email: account.email, roleIds: [roleId] } }),
      ]
      for (const tried of await Promise.all(tries.map(missing))) expect(tried).toEqual(all)
    }
    expect(await panel.admin.call(roles.addRoleMember, { params: { roleId, userId: owner.id } })).toBeNull()
    expect(await missing(manager.call(roles.removeRoleMember, { params: { roleId, userId: owner.id } }))).toEqual(all)
    await panel.admin.call(roles.removeRoleMember, { params: { roleId, userId: owner.id } })
  })

  it('by what he holds on one server, put into a role', async () => {
    const chief = await person(panel, 'chief', ['role.create', 'apikey.manage'])
    const own = await serverOf(panel, chief.id)
    const body = { name: 'leak', permissions: [`file.write:${own}`] }
    expect(await missing(chief.call(roles.createRole, { body }))).toEqual([`file.write:${own}`])
    expect(await chief.call(createApiKey, { body })).toHaveProperty('key')
  })

  it("by another's account: his password, his address, his deletion", async () => {
    for (const [, by] of both()) {
      const params = { userId: panel.adminId }
      for (const body of [{ password: OTHER }, { email: 'mine@example.org' }, { firstName: 'x' }, { roleIds: [] }]) {
        expect(await missing(by.call(users.updateUser, { params, body }))).toEqual(['*'])
      }
      for (const body of [{ password: OTHER }, { email: 'mine@example.org' }]) {
        const lost = await missing(by.call(users.updateUser, { params: { userId: owner.id }, body }))
        expect(lost).toEqual([...OWNER_PERMISSIONS])
      }
      expect(await missing(by.call(users.deleteUser, { params: { userId: owner.id }, body: { force: true } }))).toEqual(
        [...OWNER_PERMISSIONS],
      )
    }
    expect(await missing(manager.call(users.banUser, { params: { userId: panel.adminId } }))).toEqual(['*'])
    expect(await missing(manager.call(users.deleteUser, { params: { userId: panel.adminId } }))).toEqual(['*'])
    expect(await missing(key.call(setPassword, { body: { newPassword: OTHER } }))).toEqual(['*'])
    const change = { body: { currentPassword: PASSWORD, newPassword: OTHER } }
    expect(await missing(key.call(changePassword, change))).toEqual(['*'])
    expect(
      await missing(key.call(users.updateUser, { params: { userId: panel.adminId }, body: { password: OTHER } })),
    ).toEqual(['*'])
  })

  it('by the word that an address is confirmed', async () => {
    const account = { email: 'top@example.org', username: 'top', password: PASSWORD }
    for (const [, by] of both()) {
      expect(await missing(by.call(users.createUser, { body: { ...account, emailVerified: true } }))).toEqual(['*'])
    }
    const made = await manager.call(users.createUser, { body: account })
    expect(made).toMatchObject({ emailVerified: false })
    const edit = (by: Client, body: object) => by.call(users.updateUser, { params: { userId: made.id }, body })
    expect(await missing(edit(key, { emailVerified: true }))).toEqual(['*'])
    expect(await edit(panel.admin, { emailVerified: true })).toMatchObject({ emailVerified: true })
    expect(await missing(edit(manager, { email: 'boss@example.org', emailVerified: true }))).toEqual(['*'])
    expect(await edit(manager, { email: 'boss@example.org' })).toMatchObject({ emailVerified: false })
  })

  it('by a grant on a server, an invitation, or an account with grants', async () => {
    const member = await person(panel, 'member', [])
    const friend = await person(panel, 'friend', [])
    const give = (by: Client, userId: string, permissions: readonly ('server.read' | 'file.write')[], end?: string) =>
      by.call(access.setServerAccess, {
        params: { serverId },
        body: { targetUserId: userId, permissions: [...permissions], ...(end === undefined ? {} : { expiresAt: end }) },
      })
    for (const [, by] of both()) {
      expect(await missing(give(by, manager.id, ['server.read']))).toEqual(['server.users'])
      const grantsBody = { serverIds: [serverId], serverPermissions: ['server.read' as const] }
      const edit = by.call(users.updateUser, { params: { userId: manager.id }, body: grantsBody })
      expect(await missing(edit)).toEqual(['server.users'])
    }
    const params = { serverId }
    const until = new Date(panel.clock.nowMs() + HOUR).toISOString()
    await owner.call(access.setServerAccess, {
      params,
      body: { targetUserId: member.id, permissions: ['server.read', 'server.users'], expiresAt: until },
    })
    expect(await missing(give(member, friend.id, ['file.write'], until))).toEqual(['file.write'])
    expect(await missing(give(member, member.id, ['file.write'], until))).toEqual(['file.write'])
    const invite = { email: 'x@example.org', permissions: ['file.write' as const] }
    expect(await missing(member.call(access.createServerInvite, { params, body: invite }))).toEqual(['file.write'])
    // Not for longer than he has it himself, not even to himself.
    expect(await missing(give(member, friend.id, ['server.read']))).toEqual(['server.read'])
    expect(await missing(give(member, member.id, ['server.read']))).toEqual(['server.read'])
    const open = { email: 'x@example.org', permissions: ['server.read' as const] }
    expect(await missing(member.call(access.createServerInvite, { params, body: open }))).toEqual(['server.read'])
    expect(await give(member, friend.id, ['server.read'], until)).toMatchObject({ expiresAt: until })
    // Who has more is above him.
    await give(owner, friend.id, ['server.read', 'file.write'])
    expect(await missing(give(member, friend.id, ['server.read'], until))).toEqual(['file.write'])
    const helper = await person(panel, 'grant-helper', ['user.update', 'server.read', 'server.users'])
    for (const serverIds of [[], [serverId]]) {
      const body = { serverIds, serverPermissions: ['server.read' as const] }
      const less = helper.call(users.updateUser, { params: { userId: friend.id }, body })
      expect(await missing(less)).toEqual(['file.write'])
    }
    const remove = member.call(access.removeServerAccess, { params: { serverId, targetUserId: friend.id } })
    expect(await missing(remove)).toEqual(['file.write'])
  })

  it('by the ownership of a server', async () => {
    const give = (by: Client, newOwnerId: string) =>
      by.call(access.transferOwnership, { params: { serverId }, body: { newOwnerId } })
    for (const [, by] of both()) expect(await missing(give(by, manager.id))).toEqual(['server.transfer'])
    const mover = await person(panel, 'mover', ['admin.write', 'server.transfer'])
    expect(await missing(give(mover, mover.id))).toEqual(OWNER_PERMISSIONS.filter((name) => name !== 'server.transfer'))
    const member = await person(panel, 'heir', [])
    const body = { targetUserId: member.id, permissions: [...OWNER_PERMISSIONS] }
    await owner.call(access.setServerAccess, { params: { serverId }, body })
    expect(await missing(give(member, member.id))).toEqual(['admin.write'])
    const narrow = await person(panel, 'narrow', ['apikey.manage'])
    const own = await serverOf(panel, narrow.id)
    const scoped = await keyOf(panel, narrow, [`server.transfer:${own}`])
    const away = scoped.call(access.transferOwnership, { params: { serverId: own }, body: { newOwnerId: member.id } })
    expect(await missing(away)).toEqual(OWNER_PERMISSIONS.filter((name) => name !== 'server.transfer'))
  })

  it('by the assignment of a node', async () => {
    const assign = (by: Client, targetId: string, expiresAt?: string) =>
      by.call(nodes.assignNode, {
        params: { nodeId },
        body: { targetType: 'user', targetId, ...(expiresAt === undefined ? {} : { expiresAt }) },
      })
    const all = [...OWNER_PERMISSIONS, 'node.read', 'node.view_stats', 'server.create']
    for (const [, by] of both()) {
      expect(await missing(assign(by, manager.id))).toEqual(all)
      const body = { targetType: 'role' as const, targetId: manager.roleId }
      expect(await missing(by.call(nodes.assignEveryNode, { body }))).toEqual(all)
    }
    const until = new Date(panel.clock.nowMs() + HOUR).toISOString()
    const friend = await person(panel, 'node-friend', [])
    await assign(panel.admin, manager.id, until)
    expect(await missing(assign(manager, friend.id))).toEqual([OWNER_PERMISSIONS[0]])
    expect(await assign(manager, friend.id, until)).toMatchObject({ userId: friend.id, expiresAt: until })
    const every = { targetType: 'user' as const, targetId: friend.id, expiresAt: until }
    expect(await missing(manager.call(nodes.assignEveryNode, { body: every }))).toContain('server.read')
    const narrow = await keyOf(panel, manager, ['node.assign'])
    expect(await missing(assign(narrow, owner.id, until))).toContain('server.read')
  })

  it('by a key of somebody who is banned or deleted', async () => {
    const gone = await person(panel, 'gone', ['apikey.manage', 'user.read'])
    const banned = await person(panel, 'banned', ['apikey.manage', 'user.read'])
    const [first, second] = [await keyOf(panel, gone, 'all'), await keyOf(panel, banned, 'all')]
    await panel.admin.call(users.deleteUser, { params: { userId: gone.id } })
    await panel.admin.call(users.banUser, { params: { userId: banned.id } })
    for (const one of [first, second, gone, banned]) {
      expect(await missing(one.call(getMe))).toBe('UNAUTHENTICATED')
      expect(await missing(one.call(createApiKey, { body: { name: 'again' } }))).toBe('UNAUTHENTICATED')
    }
  })

  it('and keeps exactly what he had through all of it', async () => {
    expect((await manager.call(getMe)).permissions).toEqual([...MANAGES].sort())
    expect((await key.call(getMe)).permissions.length).toBeLessThan(PERMISSIONS.length)
  })
})
