import * as api from '../../../../shared/api/users.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { send } from '../../signals/mail/send.ts'
import { rightsOf } from '../auth/account-rights.ts'
import { isBanned, profileOf } from '../auth/accounts.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { cameByMail, type InviteSecrets, inviteHashes, newInviteSecrets } from '../auth/invite-tokens.ts'
import { mayMail } from '../auth/mail-trust.ts'
import { createSession } from '../auth/sessions.ts'
import type { UserDeps } from './deps.ts'
import { ensureMaySetRoles, makeUser, refuseTaken } from './new-user.ts'

/** The routes of invitations to an account of one's own. */
export function inviteRoutes(deps: UserDeps): Route[] {
  return [
    route(api.inviteUser, async ({ body }, context) => {
      ensureMaySetRoles(callerOf(context), body.roleIds)
      const token = newInviteSecrets()
      const made = await deps.db.write(async (tx) => {
        const caller = await stillAllowed(deps.credentials, callerOf(context))
        const username =
          body.username ??
          `user-${newSecret()
            .replace(/[^A-Za-z0-9]/g, '')
            .slice(0, 8)}`
        const user = await makeUser(tx, deps, caller, { ...body, username, passwordHash: null, emailVerified: false })
        const expiresAt = isoTime(Date.parse(tx.now) + body.expiresIn * 1000)
        await keepToken(tx, deps, { userId: user.id, token, expiresAt })
        const { roleIds, serverIds } = body
        const details = { email: user.email, username, roleIds, serverIds, expiresAt }
        const entry = { action: 'user.invite', resource: 'user', resourceId: user.id, details }
        await deps.audit.record(tx, context.actor, entry)
        return { user, expiresAt, mailable: await mayMail(tx, deps.settings, await rightsOf(tx, user.id)) }
      })
      const { user, expiresAt, mailable } = made
      const mailed =
        mailable &&
        (await send(
          { ...deps, log: context.log },
          mailFor(deps, user.email, { token: token.mailed, expiresAt }),
          context.signal,
        ))
      return { ...user, invite: { expiresAt, mailed, token: mailed ? null : token.handedOver } }
    }),
    route(api.acceptUserInvite, async ({ body }, context) => {
      await openInvite(deps.db.read, body.token, isoTime(deps.clock.nowMs()))
      const passwordHash = await deps.passwords.hash(body.password)
      const { origin } = context
      const { token, profile } = await deps.db.write(async (tx) => {
        const invite = await openInvite(tx.q, body.token, tx.now)
        if (isBanned(invite, tx.now)) context.fail('ACCOUNT_BANNED', 'This account is banned; ask an administrator')
        await tx.q
          .updateTable('user')
          .set({ passwordHash, lastSuccessfulLogin: tx.now, updatedAt: tx.now })
          .set(cameByMail(body.token, invite.tokenHash) ? { emailVerified: 1 } : {})
          .set(body.username === undefined ? {} : { username: body.username })
          .where('id', '=', invite.userId)
          .execute()
          .catch(refuseTaken)
        await tx.q.deleteFrom('userInvite').where('id', '=', invite.id).execute()
        const actor = { caller: undefined, origin, userId: invite.userId }
        const entry = { action: 'user.invite_accept', resource: 'user', resourceId: invite.userId }
        await deps.audit.record(tx, actor, entry)
        const person = await profileOf(tx.q, invite.userId)
        const data = { userId: person.id, username: person.username, updatedBy: person.id, change: 'invite_accepted' }
        await deps.bus.append(tx, { type: 'user_updated', data })
        tx.onCommit(() => deps.credentials.changed())
        const session = { userId: invite.userId, origin, persistent: false }
        return { token: await createSession(tx, deps.clock, session), profile: person }
      })
      context.setSession(token)
      const { id: userId, createdAt: _, ...rest } = profile
      return { ...rest, userId, token }
    }),
  ]
}

async function keepToken(
  tx: Tx,
  { clock }: UserDeps,
  invite: { userId: string; token: InviteSecrets; expiresAt: IsoTime },
): Promise<void> {
  const { userId, token, expiresAt } = invite
  await tx.q
    .insertInto('userInvite')
    .values({ id: newId('inv', clock), userId, tokenHash: token.hash, createdAt: tx.now, expiresAt })
    .execute()
}

async function openInvite(q: Tx['q'], token: string, now: IsoTime) {
  const row = await q
    .selectFrom('userInvite')
    .innerJoin('user', 'user.id', 'userInvite.userId')
    .select(['userInvite.id', 'userInvite.userId', 'userInvite.tokenHash', 'userInvite.expiresAt'])
    .select(['user.banned', 'user.banExpires'])
    .where('userInvite.tokenHash', 'in', inviteHashes(token))
    .executeTakeFirst()
  if (row === undefined) throw new PanelError('INVITE_NOT_FOUND', 'There is no such invitation; it may be used already')
  if (row.expiresAt <= now) throw new PanelError('INVITE_EXPIRED', 'The invitation has expired; ask for a new one')
  return row
}

function mailFor(deps: UserDeps, to: string, invite: { token: string; expiresAt: IsoTime }) {
  const panel = deps.settings.get('panel.name')
  const url = deps.publicUrl()
  const text = [
    `You are invited to an account on ${panel}.`,
    '',
    `Choose a password here: ${url}/accept-invite?token=${invite.token}`,
    '',
    `On the command line: panel users accept-invite --url ${url} --token-stdin`,
    `with the token ${invite.token}`,
    '',
    `The invitation ends at ${invite.expiresAt}. If you do not know what this is about, ignore it.`,
  ]
  return { to, subject: `Your account on ${panel}`, text: text.join('\n') }
}
