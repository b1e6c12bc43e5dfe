import * as api from '../../../shared/api/access.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { describeGuest } from '../../kit/guest-command.ts'
import { endOf } from '../../kit/instant.ts'
import { askUsername, readNewPassword } from '../../kit/new-account.ts'
import { column, type View, view, wide } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { listAction } from '../../kit/resource/list.ts'
import { resolve } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { SERVER_VIEW } from '../servers/view.ts'
import { agreeOnListener } from '../session/listener-consent.ts'
import { keep, keyForSession } from '../session/login.ts'

const SUBJECT = { ref: 'server', param: 'serverId' } as const

const GRANT: View<api.ServerAccess> = {
  id: (row) => row.id,
  name: (row) => row.user.username,
  columns: [
    column('USERNAME', (row) => row.user.username),
    column('EMAIL', (row) => row.user.email),
    column('PERMISSIONS', (row) => row.permissions.join(',')),
    column('FILES', (row) => pathsCell(row.filePaths)),
    column('ENDS', (row) => ({ time: row.expiresAt })),
    wide('USER ID', (row) => row.userId),
    wide('SINCE', (row) => ({ time: row.createdAt })),
  ],
}

const INVITE: View<api.ServerInvite> = {
  id: (row) => row.id,
  name: (row) => row.email,
  columns: [
    column('EMAIL', (row) => row.email),
    column('PERMISSIONS', (row) => row.permissions.join(',')),
    column('FILES', (row) => pathsCell(row.filePaths)),
    column('ENDS', (row) => ({ time: row.expiresAt })),
    column('ID', (row) => row.id),
    wide('BY', (row) => row.invitedByUserId),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

const ofServer = async (run: Run) => ({ params: { serverId: (await subjectOf(run, SUBJECT)).id } })

export const listAccess = listAction(api.listServerAccess, GRANT, ofServer)
export const listInvites = listAction(api.listServerInvites, INVITE, ofServer)

interface Preset {
  readonly id: string
  readonly name: string
  readonly permissions: readonly string[]
}

const PRESET = view<Preset>([
  column('PRESET', (row) => row.name),
  column('PERMISSIONS', (row) => row.permissions.join(',')),
])

export const listPresets: Action = async (run) => {
  const presets = await call(run, api.getServerPresets, { params: {} })
  const rows = Object.entries(presets).map(([name, permissions]) => ({ id: name, name, permissions }))
  await run.out.list(rows, PRESET)
}

export const grantAccess: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const user = run.args.text('user')
  if (user === undefined) throw usage('--user is required')
  const targetUserId = (await resolve(run, 'user', user)).id
  const expiresAt = endOf(run, 'expires')
  const permissions = await permissionsOf(run)
  const body = { targetUserId, permissions, ...filePathsOf(run), ...(expiresAt === undefined ? {} : { expiresAt }) }
  await run.out.item(await call(run, api.setServerAccess, { params: { serverId }, body }), GRANT)
}

export const revokeAccess: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id: serverId, name } = await subjectOf(run, SUBJECT)
    const word = run.args.text('user')
    if (word === undefined) throw usage('--user is required')
    const user = await resolve(run, 'user', word)
    await run.prompt.confirm(`Take ${user.name} the access to ${name}?`)
    await call(run, api.removeServerAccess, { params: { serverId, targetUserId: user.id } })
    await deleted(run, user)
  })
}

/** Prints the token alone on stdout when no mail has taken it. */
export const createInvite: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, SUBJECT)
  const email = run.args.text('email')
  if (email === undefined) throw usage('--email is required')
  const seconds = run.args.duration('expires')
  const expiresIn = seconds === undefined ? {} : { expiresIn: Math.round(seconds / 1000) }
  const body = { email, permissions: await permissionsOf(run), ...filePathsOf(run), ...expiresIn }
  const made = await call(run, api.createServerInvite, { params: { serverId }, body })
  if (run.out.machine) return run.out.value(made)
  if (made.token === null) return run.notice(`the invitation is on its way to ${email}`)
  await run.out.text(`${made.token}\n`)
  await describeGuest(run, email, ['invites accept', 'invites register'])
}

export const cancelInvite: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id: serverId } = await subjectOf(run, SUBJECT)
    const inviteId = run.args.text('invite')
    if (inviteId === undefined) throw usage('--invite is required: an id of `panel invites list`')
    await call(run, api.cancelServerInvite, { params: { serverId, inviteId } })
    await deleted(run, { id: inviteId, name: `the invitation ${inviteId}` })
  })
}

type Shown = Data<typeof api.getServerInvite>

const SHOWN: View<Shown> = {
  id: (row) => row.email,
  name: (row) => row.serverName,
  columns: [
    column('SERVER', (row) => row.serverName),
    column('EMAIL', (row) => row.email),
    column('PERMISSIONS', (row) => row.permissions.join(',')),
    column('ENDS', (row) => ({ time: row.expiresAt })),
  ],
}

export const viewInvite: Action = async (run) => {
  const { url } = await run.target()
  await agreeOnListener(run, url)
  const { client } = await run.connectTo(url, undefined)
  await run.out.item(await client.call(api.getServerInvite, { params: { token: await tokenOf(run) } }), SHOWN)
}

export const acceptInvite: Action = async (run) => {
  const { serverId } = await call(run, api.acceptServerInvite, { params: {}, body: { token: await tokenOf(run) } })
  if (run.out.machine) return run.out.value({ serverId })
  run.notice(`you are a member of ${serverId}`)
}

/** Makes an account by the invitation, and keeps the sign-in as a context. */
export const registerByInvite: Action = async (run) => {
  const { url } = await run.target()
  await agreeOnListener(run, url)
  const { client } = await run.connectTo(url, undefined)
  const token = await tokenOf(run)
  const username = await askUsername(run, 'username', { question: 'User name:' })
  const password = await readNewPassword(run, 'New password:')
  const body = { token, username, password }
  const me = await client.call(api.registerByInvite, { body }, { idempotencyKey: run.idempotencyKey() })
  const context = await keep(run, url, await keyForSession(await run.connectTo(url, me.token), me.token))
  if (run.out.machine) return run.out.value({ context, url, username: me.username })
  run.notice(`welcome, ${me.username}; you are signed in to ${url} (context ${context})`)
}

export const transferOwnership: Action = async (run) => {
  const { id: serverId, name } = await subjectOf(run, SUBJECT)
  const heir = run.args.text('to')
  if (heir === undefined) throw usage('--to is required')
  const owner = await resolve(run, 'user', heir)
  await run.prompt.confirm(`Give the server ${name} to ${owner.name}?`)
  const body = { newOwnerId: owner.id }
  await run.out.item(await call(run, api.transferOwnership, { params: { serverId }, body }), SERVER_VIEW)
}

/** What `--allow-path` and `--deny-path` say; nothing without them. */
function filePathsOf(run: Run): { filePaths?: { allow: string[]; deny: string[] } | null } {
  const [allow, deny] = [run.args.list('allow-path'), run.args.list('deny-path')]
  const isAll = run.args.flag('all-paths')
  if (allow.length + deny.length === 0) return isAll ? { filePaths: null } : {}
  if (isAll) throw usage('--all-paths does not go with --allow-path and --deny-path')
  return { filePaths: { allow: [...allow], deny: [...deny] } }
}

/** Patterns in one cell; those that are denied behind a minus. */
function pathsCell(paths: api.ServerAccess['filePaths']): string {
  return paths === null ? '' : [...paths.allow, ...paths.deny.map((one) => `-${one}`)].join(',')
}

/** Those of `--permission`, together with those of `--preset`. */
async function permissionsOf(run: Run): Promise<string[]> {
  const listed = run.args.list('permission').flatMap((text) => text.split(','))
  const wanted = run.args.text('preset')
  if (wanted === undefined) {
    if (listed.length === 0) throw usage('pass --permission or --preset', 'panel access presets')
    return listed
  }
  const presets = new Map(Object.entries(await call(run, api.getServerPresets, { params: {} })))
  const preset = presets.get(wanted)
  if (preset === undefined) throw usage(`--preset must be ${[...presets.keys()].join(', ')}, not '${wanted}'`)
  return [...new Set([...preset, ...listed])]
}

async function tokenOf(run: Run): Promise<string> {
  return (await readSecret({ name: 'token', question: 'Token of the invitation:' }, run)).trim()
}
