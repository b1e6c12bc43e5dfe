import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as api from '../../src/shared/api/access.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import * as nodes from '../../src/shared/api/assignments.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import { getEffectivePermissions } from '../../src/shared/api/effective-permissions.ts'
import { getProfile } from '../../src/shared/api/profile.ts'
import { addRoleMember } from '../../src/shared/api/roles.ts'
import { updateUser } from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import type { CallInput } from '../../src/shared/kernel/contract.ts'
import type { Permission } from '../../src/shared/kernel/permissions.ts'
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
type Granted = CallInput<typeof api.setServerAccess>['body']['permissions']

let panel: AccountsPanel & { admin: Client; adminId: string }
let owner: Person
let friend: Person
let serverId: string
let nodeId: string
beforeAll(async () => {
  panel = await openSetUpPanel()
  owner = await person(panel, 'owner', ['apikey.manage'])
  friend = await person(panel, 'friend', ['apikey.manage'])
  serverId = await serverOf(panel, owner.id)
  const row = await panel.db.read.selectFrom('server').select('nodeId').where('id', '=', serverId).executeTakeFirst()
  nodeId = row?.nodeId ?? ''
})
afterAll(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const soon = (ms: number): string => new Date(panel.clock.nowMs() + ms).toISOString()
const grant = (by: Client, user: Person, permissions: Granted, expiresAt?: string) =>
  by.call(api.setServerAccess, {
    params: { serverId },
    body: { targetUserId: user.id, permissions, ...(expiresAt === undefined ? {} : { expiresAt }) },
  })
const take = (by: Client, user: { id: string }) =>
  by.call(api.removeServerAccess, { params: { serverId, targetUserId: user.id } })
const members = (by: Client) => by.call(api.listServerAccess, { params: { serverId } })
const why = async (who: Person, permission: Permission, query: object = { serverId }) =>
  (await who.call(getEffectivePermissions, { params: { userId: who.id }, query: { ...query, permission } }))
    .permissions[0]

describe('a grant on a server', () => {
  it('gives what it names on that server alone, until it is taken back', async () => {
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
    const made = await grant(owner, friend, ['server.read', 'console.read'])
    expect(made).toMatchObject({ userId: friend.id, permissions: ['server.read', 'console.read'], expiresAt: null })
    expect(await members(friend)).toMatchObject([{ user: { username: 'friend' } }])
    const other = await serverOf(panel, owner.id)
    const elsewhere = friend.call(api.listServerAccess, { params: { serverId: other } })
    expect(await codeOf(elsewhere)).toBe('PERMISSION_DENIED')
    expect(await codeOf(friend.call(api.listServerInvites, { params: { serverId } }))).toBe('PERMISSION_DENIED')
    const changed = await grant(owner, friend, ['server.read', 'server.users'])
    expect(changed.id).toBe(made.id)
    expect(await friend.call(api.listServerInvites, { params: { serverId } })).toEqual([])
    const details = (await panel.admin.call(listAuditLogs, { query: { resourceId: serverId } }))[0]?.details
    expect(details).toMatchObject({ permissions: { before: ['server.read', 'console.read'] } })
    await take(owner, friend)
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
    expect(await codeOf(take(owner, friend))).toBe('ACCESS_NOT_FOUND')
  })

  it('ends with its time', async () => {
    expect(await codeOf(grant(owner, friend, ['server.read'], soon(-1000)))).toBe('VALIDATION_ERROR')
    await grant(owner, friend, ['server.read'], soon(HOUR))
    expect(await members(friend)).toHaveLength(1)
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
    await take(owner, friend)
  })

  it('can be given up by who has it, by his own sign-in', async () => {
    await grant(owner, friend, ['server.read'])
    const key = await keyOf(panel, friend, ['apikey.manage'])
    expect(await codeOf(take(key, friend))).toBe('PERMISSION_DENIED')
    await take(friend, friend)
    expect(await members(owner)).toEqual([])
  })

  it('is not for the owner, nor for nobody', async () => {
    expect(await codeOf(grant(panel.admin, owner, ['server.read']))).toBe('OWNER_IMMUTABLE')
    expect(await codeOf(take(panel.admin, owner))).toBe('OWNER_IMMUTABLE')
    const nobody = { ...friend, id: 'usr_none' }
    expect(await codeOf(grant(owner, nobody, ['server.read']))).toBe('USER_NOT_FOUND')
  })

  it('is cut by the scope of a key', async () => {
    await grant(owner, friend, ['server.read', 'console.read'])
    const key = await keyOf(panel, friend, [`server.read:${serverId}`])
    expect(await members(key)).toHaveLength(1)
    expect((await key.call(getMe)).credential.kind).toBe('apiKey')
    const other = await keyOf(panel, friend, [`console.read:${serverId}`])
    expect(await codeOf(members(other))).toBe('PERMISSION_DENIED')
    await take(owner, friend)
    expect(await codeOf(members(key))).toBe('PERMISSION_DENIED')
  })
})

describe('an invitation to a server', () => {
  const invite = (by: Client, email: string, permissions: Granted = ['server.read'], more: object = {}) =>
    by.call(api.createServerInvite, { params: { serverId }, body: { email, permissions, ...more } })
  const accept = (by: Client, token: string | null) => by.call(api.acceptServerInvite, { body: { token: token ?? '' } })

  it('is shown by its token, and accepted once by the account that it was sent to', async () => {
    const { token, id } = await invite(owner, 'Friend@example.org', ['server.read', 'file.read'])
    const shown = await panel.client().call(api.getServerInvite, { params: { token: token ?? '' } })
    expect(shown).toMatchObject({
      email: 'friend@example.org',
      serverName: 's',
      permissions: ['server.read', 'file.read'],
    })
    const open = await owner.call(api.listServerInvites, { params: { serverId } })
    expect(open.map((row) => row.id)).toEqual([id])
    expect(JSON.stringify(open)).not.toContain(token)
    expect(await codeOf(accept(panel.admin, token))).toBe('INVITE_WRONG_ACCOUNT')
    const narrow = await keyOf(panel, friend, ['apikey.manage'])
    expect(await codeOf(accept(narrow, token))).toBe('PERMISSION_DENIED')
    expect(await accept(friend, token)).toEqual({ serverId })
    expect(await members(friend)).toMatchObject([{ userId: friend.id, permissions: ['server.read', 'file.read'] }])
    expect(await codeOf(accept(friend, token))).toBe('INVITE_INACTIVE')
    expect(await codeOf(invite(owner, 'friend@example.org'))).toBe('ACCESS_EXISTS')
    expect(await codeOf(invite(friend, 'other@example.org'))).toBe('PERMISSION_DENIED')
    await take(owner, friend)
  })

  it('makes an account for who has none', async () => {
    const { token } = await invite(owner, 'new@example.org')
    const body = { token: token ?? '', username: 'new', password: PASSWORD }
    const taken = { ...body, username: 'friend' }
    expect(await codeOf(panel.client().call(api.registerByInvite, { body: taken }))).toBe('USER_EXISTS')
    const session = await panel.client().call(api.registerByInvite, { body })
    expect(session).toMatchObject({ email: 'new@example.org', permissions: [] })
    const fresh = panel.client(session.token)
    // Who invites without a mail server has the token himself: it confirms no address.
    expect(await fresh.call(getProfile)).toMatchObject({ emailVerified: false })
    expect(await members(fresh)).toHaveLength(1)
    await take(owner, { id: session.userId })
    const { token: second } = await invite(owner, 'new@example.org')
    const again = panel
      .client()
      .call(api.registerByInvite, { body: { ...body, token: second ?? '', username: 'newer' } })
    expect(await codeOf(again)).toBe('USER_EXISTS')
  })

  it('ends by being cancelled, replaced, or late', async () => {
    const first = await invite(owner, 'friend@example.org')
    const second = await invite(owner, 'friend@example.org')
    expect(await codeOf(accept(friend, first.token))).toBe('INVITE_INACTIVE')
    await owner.call(api.cancelServerInvite, { params: { serverId, inviteId: second.id } })
    expect(await codeOf(accept(friend, second.token))).toBe('INVITE_INACTIVE')
    const cancelled = owner.call(api.cancelServerInvite, { params: { serverId, inviteId: second.id } })
    expect(await codeOf(cancelled)).toBe('INVITE_NOT_FOUND')
    const third = await invite(owner, 'friend@example.org', ['server.read'], { expiresIn: 3600 })
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(accept(friend, third.token))).toBe('INVITE_EXPIRED')
  })

  it('goes by mail when there is a mail server', async () => {
    panel.post.configured = true
    const { mailed, token } = await invite(owner, 'post@example.org')
    expect({ mailed, token }).toEqual({ mailed: true, token: null })
    const mail = panel.mails.at(-1)
    expect(mail).toMatchObject({ to: 'post@example.org', subject: expect.stringContaining('s on panel') })
    const sent = /\/invites\/(\S+)/.exec(mail?.text ?? '')?.[1] ?? ''
    expect(await panel.client().call(api.getServerInvite, { params: { token: sent } })).toHaveProperty(
      'serverName',
      's',
    )
    const body = { token: sent, username: 'post', password: PASSWORD }
    const session = await panel.client().call(api.registerByInvite, { body })
    expect(await panel.client(session.token).call(getProfile)).toMatchObject({ emailVerified: true })
    await take(owner, { id: session.userId })
    panel.post.configured = false
  })

  it('is worth nothing when its maker may not invite any more', async () => {
    await grant(owner, friend, ['server.read', 'server.users'])
    const guest = await person(panel, 'guest', [])
    const { token } = await invite(friend, 'guest@example.org')
    await take(owner, friend)
    expect(await codeOf(accept(guest, token))).toBe('INVITE_INACTIVE')
    await grant(owner, friend, ['server.read', 'server.users'])
    expect(await accept(guest, token)).toEqual({ serverId })
    await take(owner, guest)
    await take(owner, friend)
  })
})

describe('an assignment of a node', () => {
  const assign = (by: Client, targetType: 'user' | 'role', targetId: string, expiresAt?: string) =>
    by.call(nodes.assignNode, {
      params: { nodeId },
      body: { targetType, targetId, ...(expiresAt === undefined ? {} : { expiresAt }) },
    })

  it('gives all rights on the servers of the node, by user, by role, and until it ends', async () => {
    const made = await assign(panel.admin, 'user', friend.id, soon(HOUR))
    expect(made).toMatchObject({ nodeId, userId: friend.id, username: 'friend', source: 'user' })
    expect(await codeOf(assign(panel.admin, 'user', friend.id))).toBe('ASSIGNMENT_EXISTS')
    expect(await members(friend)).toEqual([])
    expect(await friend.call(api.listServerInvites, { params: { serverId } })).toHaveLength(1)
    const reached = await friend.call(nodes.listUserNodes, { params: { userId: friend.id } })
    expect(reached).toMatchObject([{ id: nodeId, assignments: [{ id: made.id }] }])
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
    await assign(panel.admin, 'user', friend.id)
    const list = await panel.admin.call(nodes.listNodeAssignments, { params: { nodeId } })
    expect(list).toHaveLength(1)
    const params = { nodeId, assignmentId: list[0]?.id ?? '' }
    await panel.admin.call(nodes.unassignNode, { params })
    expect(await codeOf(panel.admin.call(nodes.unassignNode, { params }))).toBe('ASSIGNMENT_NOT_FOUND')
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')

    await assign(panel.admin, 'role', owner.roleId)
    await panel.admin.call(addRoleMember, { params: { roleId: owner.roleId, userId: friend.id } })
    expect(await members(friend)).toEqual([])
    await panel.admin.call(updateUser, { params: { userId: friend.id }, body: { roleIds: [friend.roleId] } })
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
    expect(await codeOf(assign(panel.admin, 'role', 'role_none'))).toBe('ROLE_NOT_FOUND')
    expect(await codeOf(assign(panel.admin, 'user', 'usr_none'))).toBe('USER_NOT_FOUND')
  })

  it('of every node takes the place of single ones and covers nodes to come', async () => {
    await assign(panel.admin, 'user', friend.id)
    const body = { targetType: 'user' as const, targetId: friend.id }
    const made = await panel.admin.call(nodes.assignEveryNode, { body })
    expect(made).toMatchObject({ nodeId: null, nodeName: null })
    expect(await codeOf(panel.admin.call(nodes.assignEveryNode, { body }))).toBe('ASSIGNMENT_EXISTS')
    expect(await codeOf(assign(panel.admin, 'user', friend.id))).toBe('ASSIGNMENT_EXISTS')
    const later = await serverOf(panel, owner.id)
    expect(await friend.call(api.listServerAccess, { params: { serverId: later } })).toEqual([])
    await panel.admin.call(nodes.unassignEveryNode, { params: body })
    expect(await codeOf(panel.admin.call(nodes.unassignEveryNode, { params: body }))).toBe('ASSIGNMENT_NOT_FOUND')
    expect(await codeOf(members(friend))).toBe('PERMISSION_DENIED')
  })

  it('is listed for roles', async () => {
    const found = await panel.admin.call(nodes.listRoleNodes, { params: { roleId: owner.roleId } })
    expect(found).toMatchObject([{ id: nodeId, assignments: [{ roleId: owner.roleId, source: 'role' }] }])
  })
})

describe('what somebody may do, and why', () => {
  it('names role, ownership, grant and assignment, and the key that withholds', async () => {
    expect(await why(friend, 'server.start')).toEqual({
      permission: 'server.start',
      allowed: false,
      sources: [],
      cutBy: null,
    })
    const { id } = await grant(owner, friend, ['server.start'], soon(HOUR))
    expect(await why(friend, 'server.start')).toMatchObject({
      allowed: true,
      sources: [{ kind: 'grant', id, expiresAt: expect.any(String) }],
    })
    expect((await why(owner, 'server.start'))?.sources.map(({ kind }) => kind)).toEqual(['owner', 'assignment'])
    expect(await why(owner, 'apikey.manage', {})).toMatchObject({
      sources: [{ kind: 'role', roleName: 'owner', as: 'apikey.manage' }],
    })
    const key = { ...friend, ...(await keyOf(panel, friend, ['apikey.manage'])), id: friend.id }
    expect(await why(key, 'server.start')).toMatchObject({ allowed: false, cutBy: { name: 'a key' } })
    expect(await why(key, 'apikey.manage', {})).toMatchObject({ allowed: true, cutBy: null })
    const params = { userId: panel.adminId }
    expect(await codeOf(friend.call(getEffectivePermissions, { params }))).toBe('PERMISSION_DENIED')
    const { permissions } = await panel.admin.call(getEffectivePermissions, { params })
    expect(permissions.every(({ allowed, sources }) => allowed && sources[0]?.as === '*')).toBe(true)
    await take(owner, friend)
  })
})

describe('the ownership of a server', () => {
  const give = (by: Client, newOwnerId: string) =>
    by.call(api.transferOwnership, { params: { serverId }, body: { newOwnerId } })

  it('is given away by the owner alone, to somebody who is there', async () => {
    await grant(owner, friend, ['server.read', 'server.transfer'])
    expect(await refusal(give(friend, friend.id))).toMatchObject({ meta: { missing: ['admin.write'] } })
    expect(await codeOf(give(owner, owner.id))).toBe('VALIDATION_ERROR')
    expect(await codeOf(give(owner, 'usr_none'))).toBe('USER_NOT_FOUND')
  })
})
