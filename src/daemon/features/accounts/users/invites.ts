import * as api from '../../../../shared/api/users.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { operationsOver, type Principal, recordChange, transact } from '../../../access/operation.ts'
import type { Log } from '../../../core/log.ts'
import { newSecret } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { callerOf } from '../../../http/route.ts'
import { send } from '../../signals/mail/send.ts'
import { rightsOf } from '../auth/account-rights.ts'
import { isBanned, profileOf } from '../auth/accounts.ts'
import { holderNow } from '../auth/grant-cap.ts'
import {
  cameByMail,
  endUserInvites,
  type InviteSecrets,
  inviteHashes,
  newInviteSecrets,
} from '../auth/invite-tokens.ts'
import { mayMail } from '../auth/mail-trust.ts'
import { createSession } from '../auth/sessions.ts'
import type { UserDeps } from './deps.ts'
import { ensureMaySetRoles, makeUser, refuseTaken } from './new-user.ts'

const operation = operationsOver<UserDeps>()

/** Takes the account that somebody was invited to, and signs them in. */
export async function acceptUserInvite(
  deps: UserDeps,
  { body }: Input<typeof api.acceptUserInvite>,
  context: Context<typeof api.acceptUserInvite>,
) {
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
    await endUserInvites(tx.q, invite.userId)
    const person = await profileOf(tx.q, invite.userId)
    const data = { userId: person.id, username: person.username, updatedBy: person.id, change: 'invite_accepted' }
    const by = { deps, principal: { kind: 'caller', caller: undefined, origin, userId: person.id } } as const
    await recordChange(
      tx,
      { ...by, endpoint: api.acceptUserInvite },
      { audit: { resourceId: person.id }, events: [{ type: 'user_updated', data }] },
    )
    tx.onCommit(() => deps.credentials.changed())
    const session = { userId: invite.userId, origin, persistent: false }
    return { token: await createSession(tx, deps.clock, session), profile: person }
  })
  context.setSession(token)
  const { id: userId, createdAt: _, ...rest } = profile
  return { ...rest, userId, token }
}

/** Invites somebody: the account and its token are one transaction, the mail follows it. `signal` ends the sending. */
export async function inviteUser(
  deps: UserDeps & { readonly log: Log },
  request: {
    readonly principal: Principal
    readonly input: Input<typeof api.inviteUser>
    readonly signal: AbortSignal
  },
): Promise<Answer<typeof api.inviteUser>> {
  const { principal, input, signal } = request
  if (principal.kind === 'caller') ensureMaySetRoles(callerOf(principal), input.body.roleIds)
  const token = newInviteSecrets()
  let mailable = false
  const made = await transact(
    operation(api.inviteUser, async (work, { body }) => {
      const { tx } = work
      const holder = await holderNow(work)
      ensureMaySetRoles(holder, body.roleIds)
      const username =
        body.username ??
        `user-${newSecret()
          .replace(/[^A-Za-z0-9]/g, '')
          .slice(0, 8)}`
      const { user, event } = await makeUser(work, holder, {
        ...{ ...body, username, passwordHash: null, emailVerified: false },
      })
      await work.record({ events: [event] })
      const expiresAt = isoTime(Date.parse(tx.now) + body.expiresIn * 1000)
      await keepToken(tx, deps, { userId: user.id, token, expiresAt })
      mailable = await mayMail(tx, deps.settings, await rightsOf(tx, user.id))
      const { roleIds, serverIds } = body
      const details = { email: user.email, username, roleIds, serverIds, expiresAt }
      return {
        answer: { ...user, invite: { expiresAt, mailed: false, token: null } },
        audit: { resourceId: user.id, details },
      }
    }),
    { deps, principal, input },
  )
  const { expiresAt } = made.invite
  const mail = mailFor(deps, made.email, { token: token.mailed, expiresAt: isoTime(Date.parse(expiresAt)) })
  const mailed = mailable && (await send(deps, mail, signal))
  return { ...made, invite: { expiresAt, mailed, token: mailed ? null : token.handedOver } }
}

/**
 * Writes to somebody who has an account and no password yet, such as one who was imported; an invitation of before no longer holds.
 * Answers whether a mail could be sent.
 */
export async function mailInvite(
  deps: UserDeps & { readonly log: Log },
  { userId, expiresInMs }: { readonly userId: string; readonly expiresInMs: number },
  signal: AbortSignal,
): Promise<boolean> {
  const token = newInviteSecrets()
  const invited = await deps.db.write(async (tx) => {
    const user = await tx.q
      .selectFrom('user')
      .select(['email', 'passwordHash'])
      .where('id', '=', userId)
      .executeTakeFirst()
    if (user === undefined || user.passwordHash !== null) return undefined
    await endUserInvites(tx.q, userId)
    const expiresAt = isoTime(Date.parse(tx.now) + expiresInMs)
    await keepToken(tx, deps, { userId, token, expiresAt })
    const mailable = await mayMail(tx, deps.settings, await rightsOf(tx, userId))
    return { email: user.email, expiresAt, mailable }
  })
  if (invited?.mailable !== true) return false
  const { email, expiresAt } = invited
  return send(deps, mailFor(deps, email, { token: token.mailed, expiresAt }), signal)
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
    .where('user.passwordHash', 'is', null)
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
