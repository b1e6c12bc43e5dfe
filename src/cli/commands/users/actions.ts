import { listUserNodes } from '../../../shared/api/assignments.ts'
import * as roles from '../../../shared/api/roles.ts'
import * as api from '../../../shared/api/users.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { describeGuest } from '../../kit/guest-command.ts'
import { endOf } from '../../kit/instant.ts'
import { readNewPassword } from '../../kit/new-account.ts'
import { column, view } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleted, ignoringNotFound, subjectOf, viewAction } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { REACHED } from '../nodes/assignment-views.ts'
import { agreeOnListener } from '../session/listener-consent.ts'
import { keep, keyForSession } from '../session/login.ts'
import { SUBJECT, VIEW } from './view.ts'

export const listUsers = listAction(api.listUsers, VIEW, async ({ args }) => ({
  query: args.flag('banned') ? { banned: true } : {},
}))
export const viewUser = viewAction(api.getUser, SUBJECT, VIEW)

export const createUser: Action = async (run) => {
  const body = await fieldsOf(run)
  body['password'] ??= await readNewPassword(run, `Password of ${body['username']}:`)
  await run.out.item(await call(run, api.createUser, { params: {}, body }), VIEW)
}

/** Prints the token alone on stdout when no mail has taken it, so that it can be handed over by another way. */
export const inviteUser: Action = async (run) => {
  const made = await call(run, api.inviteUser, { params: {}, body: await fieldsOf(run) })
  if (run.out.machine) return run.out.value(made)
  if (made.invite.token === null) return run.notice(`the invitation is on its way to ${made.email}`)
  await run.out.text(`${made.invite.token}\n`)
  await describeGuest(run, made.email, ['users accept-invite'])
}

/** Chooses the password of an invited account, and keeps the sign-in as a context. */
export const acceptInvite: Action = async (run) => {
  const { url } = await run.target()
  await agreeOnListener(run, url)
  const { client } = await run.connectTo(url, undefined)
  const token = (await readSecret({ name: 'token', question: 'Token of the invitation:' }, run)).trim()
  const password = await readNewPassword(run, 'New password:')
  const username = run.args.text('username')
  const body = { token, password, ...(username === undefined ? {} : { username }) }
  const me = await client.call(api.acceptUserInvite, { body }, { idempotencyKey: run.idempotencyKey() })
  const context = await keep(run, url, await keyForSession(await run.connectTo(url, me.token), me.token))
  if (run.out.machine) return run.out.value({ context, url, username: me.username })
  run.notice(`welcome, ${me.username}; you are signed in to ${url} (context ${context})`)
}

export const editUser: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const body = await fieldsOf(run)
  if (run.args.choice('roles') === false) body['roleIds'] = []
  if (run.args.choice('servers') === false) body['serverIds'] = []
  if (run.args.flag('password-stdin') || run.args.text('secret-file') !== undefined || run.args.flag('password')) {
    body['password'] = await readNewPassword(run, 'New password of the account:')
  }
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', 'panel users edit --help')
  await run.out.item(await call(run, api.updateUser, { params: { userId: id }, body }), VIEW)
}

export const deleteUser: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const user = await subjectOf(run, SUBJECT)
    await run.prompt.confirm(`Delete the account ${user.name}?`)
    const heir = run.args.text('transfer-to')
    const transferToUserId = heir === undefined ? undefined : (await resolve(run, 'user', heir)).id
    const force = run.args.flag('force')
    const body = { ...(force ? { force } : {}), ...(transferToUserId === undefined ? {} : { transferToUserId }) }
    await call(run, api.deleteUser, { params: { userId: user.id }, body })
    await deleted(run, user)
  })
}

export const banUser: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const expiresAt = endOf(run, 'expires')
  const body = { ...(await fieldsOf(run)), ...(expiresAt === undefined ? {} : { expiresAt }) }
  await run.out.item(await call(run, api.banUser, { params: { userId: id }, body }), VIEW)
}

export const unbanUser: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  await run.out.item(await call(run, api.unbanUser, { params: { userId: id } }), VIEW)
}

export const unlockUser: Action = async (run) => {
  const { id, name } = await subjectOf(run, SUBJECT)
  await call(run, api.unlockUser, { params: { userId: id } })
  run.notice(`${name} can sign in from everywhere again`)
}

interface ServerOfUser {
  readonly id: string
  readonly name: string
  readonly relation: string
}

const SERVERS = view<ServerOfUser>([column('SERVER', (row) => row.id), column('RELATION', (row) => row.relation)])

export const userServers: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  const { serverIds, ownedServerIds } = await call(run, api.getUserServers, { params: { userId: id } })
  const row = (relation: string) => (serverId: string) => ({ id: serverId, name: serverId, relation })
  await run.out.list([...ownedServerIds.map(row('owner')), ...serverIds.map(row('member'))], SERVERS)
}

type RoleOfUser = { readonly id: string; readonly name: string; readonly permissions: readonly string[] }

const ROLES = view<RoleOfUser>([
  column('ROLE', (row) => row.name),
  column('PERMISSIONS', (row) => (row.permissions.includes('*') ? 'everything' : row.permissions.join(','))),
  column('ID', (row) => row.id),
])

export const userRoles: Action = async (run) => {
  const { id } = await subjectOf(run, SUBJECT)
  await run.out.list((await call(run, roles.getUserRoles, { params: { userId: id } })).roles, ROLES)
}

const ofUser = async (run: Run) => ({ params: { userId: (await subjectOf(run, SUBJECT)).id } })

export const userNodes = listAction(listUserNodes, REACHED, ofUser)
