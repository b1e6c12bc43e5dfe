import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signUserOut } from '../../src/shared/api/account-security.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { listRoles } from '../../src/shared/api/api-keys.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import * as api from '../../src/shared/api/users.ts'
import type { Client } from '../../src/shared/client.ts'
import type { CallInput } from '../../src/shared/kernel/contract.ts'
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

const OTHER = 'Another-horse-22'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeAll(async () => {
  panel = await openSetUpPanel()
})
afterAll(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const signIn = (email: string, password: string, ip?: string) =>
  panel.client(undefined, ip).call(login, { body: { email, password } })
const edit = (userId: string, body: NonNullable<CallInput<typeof api.updateUser>['body']>) =>
  panel.admin.call(api.updateUser, { params: { userId }, body })
const actions = async (resourceId: string): Promise<string[]> =>
  (await panel.admin.call(listAuditLogs, { query: { resourceId } })).map(({ action }) => action)
const roleNamed = async (name: string): Promise<string> =>
  (await panel.admin.call(listRoles, { query: {} })).find((role) => role.name === name)?.id ?? ''

describe('an edit', () => {
  it('changes what it names, tells before and after, and writes nothing when nothing changes', async () => {
    const eve = await person(panel, 'eve', [])
    const changed = await edit(eve.id, { email: 'EVA@example.org', username: 'eva', firstName: 'Eva', lastName: null })
    expect(changed).toMatchObject({ email: 'eva@example.org', username: 'eva', name: 'Eva', lastName: null })
    const [row] = await panel.admin.call(listAuditLogs, { query: { resourceId: eve.id, action: 'user.update' } })
    expect(row?.details).toMatchObject({ email: { before: 'eve@example.org', after: 'eva@example.org' } })
    const again = await edit(eve.id, { email: 'eva@example.org', username: 'eva' })
    expect(again.updatedAt).toBe(changed.updatedAt)
    expect((await actions(eve.id)).filter((action) => action === 'user.update')).toHaveLength(1)
    expect(await codeOf(edit(eve.id, { username: 'ROOT' }))).toBe('USER_EXISTS')
  })

  it("sets that user's password and ends his sessions, not the caller's", async () => {
    const bob = await person(panel, 'bob', [])
    await edit(bob.id, { password: OTHER })
    expect(await codeOf(bob.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await panel.admin.call(getMe)).toMatchObject({ username: 'root' })
    expect(await codeOf(signIn('bob', PASSWORD))).toBe('INVALID_CREDENTIALS')
    expect(await signIn('bob', OTHER)).toMatchObject({ username: 'bob' })
    expect(await signIn('root', PASSWORD)).toMatchObject({ username: 'root' })
    expect(await actions(bob.id)).toContain('user.password_reset')
    expect(JSON.stringify(await panel.admin.call(listAuditLogs, { query: { resourceId: bob.id } }))).not.toContain(
      OTHER,
    )
  })

  it('replaces roles with user.set_roles alone, and grants on servers', async () => {
    const cat = await person(panel, 'cat', [])
    const clerk = await person(panel, 'clerk', ['user.update'])
    const roleIds = [await roleNamed('User')]
    const call = clerk.call(api.updateUser, { params: { userId: cat.id }, body: { roleIds } })
    expect(await refusal(call)).toMatchObject({ meta: { missing: ['user.set_roles'] } })
    const serverId = await serverOf(panel, panel.adminId)
    const body = { roleIds, serverIds: [serverId], serverPermissions: ['server.read' as const, 'file.read' as const] }
    expect((await edit(cat.id, body)).roles.map(({ name }) => name)).toEqual(['User'])
    const servers = () => panel.admin.call(api.getUserServers, { params: { userId: cat.id } })
    expect(await servers()).toEqual({ serverIds: [serverId], ownedServerIds: [] })
    await edit(cat.id, { serverIds: [] })
    expect(await servers()).toEqual({ serverIds: [], ownedServerIds: [] })
    expect(await codeOf(edit(cat.id, { serverIds: ['srv_none'] }))).toBe('SERVER_NOT_FOUND')
    expect(await codeOf(edit(cat.id, { serverPermissions: ['file.read'] }))).toBe('VALIDATION_ERROR')
  })

  it('leaves the last administrator what he is', async () => {
    expect(await codeOf(edit(panel.adminId, { roleIds: [] }))).toBe('LAST_ADMIN')
    // Whoever is invited is none before they come in: the invitation may end unused.
    const roleIds = [await roleNamed('Administrator')]
    const { id, invite } = await panel.admin.call(api.inviteUser, { body: { email: 'next@example.org', roleIds } })
    expect(await codeOf(edit(panel.adminId, { roleIds: [] }))).toBe('LAST_ADMIN')
    const body = { token: invite.token ?? '', password: OTHER, username: 'next' }
    const next = await panel.client().call(api.acceptUserInvite, { body })
    await edit(panel.adminId, { roleIds: [] })
    const again = { params: { userId: panel.adminId }, body: { roleIds } }
    await panel.client(next.token).call(api.updateUser, again)
    await panel.admin.call(api.deleteUser, { params: { userId: id } })
  })
})

describe('a ban', () => {
  it('ends sessions, switches keys off, and is told with its reason and end', async () => {
    const dan = await person(panel, 'dan', ['apikey.manage'])
    const key = await keyOf(panel, dan, 'all')
    const expiresAt = new Date(panel.clock.nowMs() + HOUR).toISOString()
    const params = { userId: dan.id }
    const banned = await panel.admin.call(api.banUser, { params, body: { reason: 'noise', expiresAt } })
    expect(banned).toMatchObject({ banned: true, banReason: 'noise', banExpires: expiresAt })
    expect(await codeOf(dan.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(key.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(signIn('dan', PASSWORD))).toBe('ACCOUNT_BANNED')
    const free = await panel.admin.call(api.unbanUser, { params })
    expect(free).toMatchObject({ banned: false, banReason: null, banExpires: null })
    expect(await signIn('dan', PASSWORD)).toMatchObject({ username: 'dan' })
    expect(await codeOf(key.call(getMe))).toBe('UNAUTHENTICATED')
    expect((await actions(dan.id)).slice(1, 3)).toEqual(['user.unban', 'user.ban'])
    const past = panel.admin.call(api.banUser, { params, body: { expiresAt: '2020-01-01T00:00:00Z' } })
    expect(await codeOf(past)).toBe('VALIDATION_ERROR')
  })

  it('of another administrator holds, and is not for oneself', async () => {
    expect(await codeOf(panel.admin.call(api.banUser, { params: { userId: panel.adminId } }))).toBe('USER_SELF_ACTION')
    const second = await person(panel, 'second', ['*'])
    const key = await keyOf(panel, second, 'all')
    await panel.admin.call(api.banUser, { params: { userId: second.id } })
    expect(await codeOf(key.call(getMe))).toBe('UNAUTHENTICATED')
    await panel.admin.call(api.unbanUser, { params: { userId: second.id } })
  })
})

describe('unlocking', () => {
  it('of an account that may do more is refused', async () => {
    const clerk = await person(panel, 'unlocker', ['user.update'])
    expect(await codeOf(clerk.call(api.unlockUser, { params: { userId: panel.adminId } }))).toBe('PERMISSION_DENIED')
  })

  it('lifts the lockouts of the account everywhere', async () => {
    const fay = await person(panel, 'fay', [])
    for (let i = 0; i < 5; i++) await codeOf(signIn('fay', OTHER, '192.0.2.77'))
    expect(await codeOf(signIn('fay', PASSWORD, '192.0.2.77'))).toBe('ACCOUNT_LOCKED')
    const params = { userId: fay.id }
    expect((await panel.admin.call(api.getUser, { params })).lockedUntil).not.toBeNull()
    await panel.admin.call(api.unlockUser, { params })
    expect((await panel.admin.call(api.getUser, { params })).lockedUntil).toBeNull()
    expect(await signIn('fay', PASSWORD, '192.0.2.77')).toMatchObject({ username: 'fay' })
    const events = panel.db.read.selectFrom('event').select('data').where('type', '=', 'auth_lockout_cleared')
    const [cleared] = (await events.execute()).map(({ data }) => JSON.parse(data))
    expect(cleared).toMatchObject({ email: 'fay@example.org', ipAddress: '192.0.2.77', clearedBy: panel.adminId })
  })
})

describe('a deletion', () => {
  it('takes sessions, keys and grants with it', async () => {
    const gus = await person(panel, 'gus', ['apikey.manage'])
    const key = await keyOf(panel, gus, 'all')
    await edit(gus.id, { serverIds: [await serverOf(panel, panel.adminId)] })
    await panel.admin.call(api.deleteUser, { params: { userId: gus.id } })
    expect(await codeOf(gus.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await codeOf(key.call(getMe))).toBe('UNAUTHENTICATED')
    for (const table of ['session', 'apiKey', 'serverAccess', 'userRole'] as const) {
      const rows = await panel.db.read.selectFrom(table).select('userId').where('userId', '=', gus.id).execute()
      expect(rows).toEqual([])
    }
    expect(await codeOf(panel.admin.call(api.getUser, { params: { userId: gus.id } }))).toBe('USER_NOT_FOUND')
  })

  it('of an owner needs a new owner for his servers', async () => {
    const hal = await person(panel, 'hal', [])
    const ian = await person(panel, 'ian', [])
    const [one, two] = [await serverOf(panel, hal.id), await serverOf(panel, hal.id)]
    const remove = (body: object) => panel.admin.call(api.deleteUser, { params: { userId: hal.id }, body })
    expect(await refusal(remove({}))).toMatchObject({
      code: 'USER_OWNS_SERVERS',
      meta: { total: 2, ownedServers: [{ id: one }, { id: two }] },
    })
    expect(await codeOf(remove({ transferToUserId: 'usr_none' }))).toBe('USER_NOT_FOUND')
    expect(await codeOf(remove({ transferToUserId: hal.id }))).toBe('USER_SELF_ACTION')
    await remove({ transferToUserId: ian.id })
    const { ownedServerIds } = await panel.admin.call(api.getUserServers, { params: { userId: ian.id } })
    expect(ownedServerIds).toEqual([one, two])
    expect(await actions(one)).toEqual(['server.transfer_ownership'])
    await panel.admin.call(api.removeUser, { params: { userId: ian.id }, query: { force: 'true' } })
    const own = await panel.admin.call(api.getUserServers, { params: { userId: panel.adminId } })
    expect(own.ownedServerIds).toEqual(expect.arrayContaining([one, two]))
  })

  it('is not for oneself', async () => {
    const own = panel.admin.call(api.deleteUser, { params: { userId: panel.adminId } })
    expect(await codeOf(own)).toBe('USER_SELF_ACTION')
  })
})

describe('an invitation to an account', () => {
  const accept = (token: string, more: object = {}) =>
    panel.client().call(api.acceptUserInvite, { body: { token, password: OTHER, ...more } })

  it('hands the token over in its one answer when there is no mail server, and works once', async () => {
    const body = { email: 'Kim@example.org', roleIds: [await roleNamed('User')] }
    const made = await panel.admin.call(api.inviteUser, { body })
    expect(made).toMatchObject({ email: 'kim@example.org', hasPassword: false, emailVerified: false })
    expect(made.invite).toMatchObject({ mailed: false, token: expect.any(String) })
    expect(await codeOf(signIn('kim@example.org', OTHER))).toBe('INVALID_CREDENTIALS')
    const token = made.invite.token ?? ''
    const session = await accept(token, { username: 'kim' })
    expect(session).toMatchObject({ userId: made.id, username: 'kim', role: 'User' })
    expect(await panel.client(session.token).call(getMe)).toMatchObject({ username: 'kim' })
    // The token went through the administrator's hands and says nothing of who reads that address.
    expect(await panel.admin.call(api.getUser, { params: { userId: made.id } })).toMatchObject({ emailVerified: false })
    expect(await codeOf(accept(token))).toBe('INVITE_NOT_FOUND')
    expect(await codeOf(panel.admin.call(api.inviteUser, { body }))).toBe('USER_EXISTS')
  })

  it('goes by mail when there is a mail server, and is not answered then', async () => {
    panel.post.configured = true
    const { invite } = await panel.admin.call(api.inviteUser, { body: { email: 'lea@example.org', username: 'lea' } })
    expect(invite).toMatchObject({ mailed: true, token: null })
    const mail = panel.mails.find(({ to }) => to === 'lea@example.org')
    const token = /accept-invite\?token=(\S+)/.exec(mail?.text ?? '')?.[1] ?? ''
    expect(mail?.text).toContain('https://panel.example.org/')
    const { userId } = await accept(token)
    const lea = await panel.admin.call(api.getUser, { params: { userId } })
    expect(lea).toMatchObject({ username: 'lea', emailVerified: true })
    panel.post.works = false
    const { invite: kept } = await panel.admin.call(api.inviteUser, { body: { email: 'may@example.org' } })
    expect(kept).toMatchObject({ mailed: false, token: expect.any(String) })
    expect(panel.logged()).not.toContain(kept.token)
    Object.assign(panel.post, { configured: false, works: true })
  })

  it('ends with its time, with a ban, and with a password or another address from an administrator', async () => {
    const invited = async (email: string) => {
      const made = await panel.admin.call(api.inviteUser, { body: { email, expiresIn: 3600 } })
      return { id: made.id, token: made.invite.token ?? '' }
    }
    const [ned, oda, pam] = [await invited('ned@x.org'), await invited('oda@x.org'), await invited('pam@x.org')]
    const quin = await invited('qiun@x.org')
    await edit(quin.id, { email: 'quin@x.org' })
    expect(await codeOf(accept(quin.token))).toBe('INVITE_NOT_FOUND')
    await panel.admin.call(api.banUser, { params: { userId: ned.id } })
    expect(await codeOf(accept(ned.token))).toBe('ACCOUNT_BANNED')
    await edit(oda.id, { password: PASSWORD })
    expect(await codeOf(accept(oda.token))).toBe('INVITE_NOT_FOUND')
    panel.clock.advance(HOUR + 1000)
    expect(await codeOf(accept(pam.token))).toBe('INVITE_EXPIRED')
  })
})

describe('the sessions of an account', () => {
  const end = (client: Client, userId: string) =>
    client.call(signUserOut, { params: { userId: signUserOut.params.userId.parse(userId) } })

  it('are ended by who has its rights, and its keys stay', async () => {
    const ivy = await person(panel, 'ivy', ['apikey.manage'])
    const key = await keyOf(panel, ivy, [])
    expect(await end(panel.admin, ivy.id)).toEqual({ revoked: 1 })
    expect(await codeOf(ivy.call(getMe))).toBe('UNAUTHENTICATED')
    expect(await key.call(getMe)).toMatchObject({ id: ivy.id })
    expect(await end(panel.admin, ivy.id)).toEqual({ revoked: 0 })
    expect((await actions(ivy.id)).filter((action) => action === 'auth.session_revoke')).toHaveLength(1)
    const helper = await person(panel, 'session-helper', ['user.update'])
    expect(await codeOf(end(helper, ivy.id))).toBe('PERMISSION_DENIED')
  })
})
