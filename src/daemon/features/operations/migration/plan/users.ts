import type { SourceServer, SourceSubuser, SourceUser } from '../source/model.ts'
import type { Op } from './draft.ts'
import type { Planning, ServerInScope } from './scope.ts'

const USERNAME_LENGTH = 32

/** Accounts: owners and sub-users of the servers that come along, or all; and a mail to each that is new, where that was asked for. */
export function planUsers(planning: Planning, servers: readonly ServerInScope[]): void {
  const { source, request, phases } = planning
  if (!phases.has('users')) return
  const wanted = new Set<string>()
  for (const { server } of servers) {
    wanted.add(server.ownerId)
    for (const one of subusersOf(planning, server)) wanted.add(userOf(planning, one)?.id ?? '')
  }
  for (const user of source.users) {
    if (request.scope !== 'full' && !wanted.has(user.id)) continue
    planUser(planning, user)
    if (request.options.invite) planInvite(planning, user)
  }
}

function planUser({ target, request, draft }: Planning, user: SourceUser): string {
  const { id, email } = user
  const { conflicts, grantAdmin } = request.options
  const username = freeUsername(user.username, email)
  const add = (op: Op, targetId: string | null, reason?: string, as = username) =>
    draft.add({
      phase: 'users',
      action: 'import_user',
      type: 'user',
      id,
      name: email,
      target: { type: 'user', id: targetId, name: email },
      op,
      reason,
      input: { source: user, username: as, op, grantAdmin: grantAdmin && user.isAdmin },
    })
  const again = draft.again('user', id, user)
  if (user.mustExist && again === undefined) {
    const known = target.users.get(email)?.id ?? target.usernames.get(user.username.toLowerCase())
    return known === undefined ? add('skip', null, 'user_missing') : add('link', known, 'exists')
  }
  // What somebody has made of an account here is not overwritten by what it was on the source.
  if (again !== undefined) return add('skip', again.targetId, 'unchanged')
  const there = target.users.get(email.toLowerCase())
  if (there === undefined) {
    return add('create', null, undefined, draft.freeName('user', username, target.usernames, USERNAME_LENGTH))
  }
  if (conflicts.user === 'link') return add('link', there.id, 'exists')
  if (conflicts.user === 'skip') return add('skip', null, 'policy')
  draft.conflict('USER_EXISTS', { type: 'user', id, name: email }, `${email} has an account already`, {
    target: { type: 'user', id: there.id, name: email },
    policy: 'conflicts.user',
    policyOptions: ['link', 'skip'],
  })
  return add('conflict', there.id)
}

/** Also who came in a rehearsal, which writes to nobody. Whoever had an account here has a password. */
function planInvite({ target, draft }: Planning, { id, email }: SourceUser): void {
  const before = target.brought.get(`user ${id}`)
  const there = target.users.get(email.toLowerCase())
  const isNew = before?.isThere === true ? before.created && target.withoutPassword.has(before.targetId) : !there
  if (!isNew || target.brought.get(`invite ${id}`)?.isThere === true) return
  const importing = draft.bringing(`user ${id}`)
  const item = {
    phase: 'users',
    action: 'invite_user',
    type: 'invite',
    id,
    name: email,
    target: { type: 'user', id: null, name: email },
    op: 'create',
  } as const
  draft.add({ ...item, needs: [importing], input: { userSourceId: id } })
}

/** Those who may use a server beside its owner. */
export function subusersOf({ source }: Planning, server: SourceServer): readonly SourceSubuser[] {
  return source.perServer.get(server.id)?.subusers ?? server.subusers ?? []
}

/** The account of a sub-user, by whatever the source shows of it. */
export function userOf({ source }: Planning, { userId, userUuid, email }: SourceSubuser): SourceUser | undefined {
  const mail = email?.toLowerCase()
  return source.users.find(
    (user) =>
      (userId !== null && user.id === userId) ||
      (userUuid !== null && user.uuid === userUuid) ||
      (mail !== undefined && user.email === mail),
  )
}

/** A user name that this panel takes: letters, digits, `_` and `-`, at least three. */
function freeUsername(username: string, email: string): string {
  const from = username.trim() === '' ? (email.split('@')[0] ?? '') : username
  return from
    .replace(/[^A-Za-z0-9_-]/g, '_')
    .slice(0, USERNAME_LENGTH)
    .padEnd(3, '_')
}
