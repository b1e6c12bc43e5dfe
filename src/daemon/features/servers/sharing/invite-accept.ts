import * as api from '../../../../shared/api/access.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import type { Permission } from '../../../../shared/kernel/permissions.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { type Done, operationsOver, recordChange, type WorkOver } from '../../../access/operation.ts'
import { permitServer } from '../../../access/permit.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { isBanned, profileOf } from '../../accounts/auth/accounts.ts'
import { insertUser } from '../../accounts/auth/first-admin.ts'
import { cameByMail } from '../../accounts/auth/invite-tokens.ts'
import { ensureMayGive } from '../../accounts/auth/server-cap.ts'
import { createSession } from '../../accounts/auth/sessions.ts'
import { wholeUser } from '../../accounts/auth/whole-user.ts'
import { refuseTaken } from '../../accounts/users/new-user.ts'
import { putGrant } from '../../accounts/users/server-grants.ts'
import type { AccessDeps } from './deps.ts'
import { memberChange } from './grants.ts'
import { usableInvite } from './invites.ts'

type Invite = Awaited<ReturnType<typeof usableInvite>>

const operation = operationsOver<AccessDeps>()

export const acceptServerInvite = operation(api.acceptServerInvite, async (work, { body: { token } }) => {
  const { tx, fail } = work
  // What is accepted is held by the account itself: a key that may do less decides nothing of that.
  const { userId } = wholeUser(work)
  const invite = await usableInvite(tx.q, token, tx.now)
  const user = await tx.q.selectFrom('user').select('email').where('id', '=', userId).executeTakeFirstOrThrow()
  if (user.email !== invite.email) {
    fail('INVITE_WRONG_ACCOUNT', 'The invitation is for another e-mail address than that of your account')
  }
  const done = await accept(work, invite, { userId, created: false })
  return { ...done, answer: { serverId: invite.serverId } }
})

/** Accepts an invitation with a new account, and signs it in. */
export async function registerByInvite(
  deps: AccessDeps,
  { body }: Input<typeof api.registerByInvite>,
  context: Context<typeof api.registerByInvite>,
) {
  await usableInvite(deps.db.read, body.token, now(deps.clock))
  const passwordHash = await deps.passwords.hash(body.password)
  const { origin } = context
  const { token, profile } = await deps.db.write(async (tx) => {
    const invite = await usableInvite(tx.q, body.token, tx.now)
    const id = newId('usr', deps.clock)
    const { email } = invite
    const { username } = body
    // A token that went through the hands of the inviter says nothing of who reads that address.
    const emailVerified = cameByMail(body.token, invite.tokenHash) ? 1 : 0
    await insertUser(tx, { id, email, username, passwordHash, emailVerified }).catch(refuseTaken)
    const user = { id, email, username, createdAt: tx.now, updatedAt: tx.now, roles: [] }
    const principal = { kind: 'caller', caller: undefined, origin, userId: id } as const
    const record = (done: Done): Promise<void> =>
      recordChange(tx, { deps, principal, endpoint: api.registerByInvite }, done)
    await record({ events: [{ type: 'user_created', data: { user, createdBy: id } }] })
    await record(await accept({ tx, deps, userId: id }, invite, { userId: id, created: true }))
    const session = await createSession(tx, deps.clock, { userId: id, origin, persistent: false })
    return { token: session, profile: await profileOf(tx.q, id) }
  })
  context.setSession(token)
  const { id: userId, createdAt: _, ...rest } = profile
  return { ...rest, userId, token }
}

/** An invitation gives what its maker may still give at this moment, or nothing. */
async function accept(
  work: Pick<WorkOver<AccessDeps>, 'tx' | 'deps' | 'userId'>,
  invite: Invite,
  { userId, created }: { userId: string; created: boolean },
): Promise<Done> {
  const { tx, deps } = work
  const { serverId, filePaths } = invite
  const permissions = invite.permissions as Permission[] // checked when they were written
  await ensureMakerMay(tx, invite, permissions)
  const had = await tx.q
    .selectFrom('serverAccess')
    .select('expiresAt')
    .where('serverId', '=', serverId)
    .where('userId', '=', userId)
    .executeTakeFirst()
  const holds = had !== undefined && (had.expiresAt === null || had.expiresAt > tx.now)
  if (invite.ownerId === userId || holds) {
    throw new PanelError('ACCESS_EXISTS', 'The account has access to this server already')
  }
  await putGrant(tx, deps.clock, { serverId, userId, permissions, filePaths, expiresAt: null })
  await tx.q.updateTable('serverInvite').set({ acceptedAt: tx.now }).where('id', '=', invite.id).execute()
  const details = { inviteId: invite.id, email: invite.email, permissions, filePaths, newAccount: created }
  return memberChange(work, serverId, { change: 'invite_accepted', details })
}

async function ensureMakerMay(tx: Tx, invite: Invite, permissions: readonly Permission[]): Promise<void> {
  const userId = invite.invitedByUserId
  const gone = (): never => {
    throw new PanelError('INVITE_INACTIVE', 'Who invited you may not invite to this server any more; ask for a new one')
  }
  const maker = await tx.q
    .selectFrom('user')
    .select(['banned', 'banExpires'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  if (isBanned(maker, tx.now)) gone()
  const holder = { userId, permissions: await rolePermissions(tx.q, userId), scope: null }
  try {
    await permitServer(tx, holder, invite.serverId, ['server.users'])
    await ensureMayGive(tx, holder, {
      serverId: invite.serverId,
      permissions,
      filePaths: invite.filePaths,
      expiresAt: null,
    })
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    gone()
  }
}
