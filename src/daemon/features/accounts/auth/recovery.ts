import * as api from '../../../../shared/api/account-recovery.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { now } from '../../../../shared/kernel/time.ts'
import { type Principal, recordChange } from '../../../access/operation.ts'
import type { Context } from '../../../http/route.ts'
import { mailableAccount, sendAccountMail, sendMadeToken } from './account-mail.ts'
import { rightsOf } from './account-rights.ts'
import { accountById } from './accounts.ts'
import type { SignInDeps } from './deps.ts'
import { endUserInvites } from './invite-tokens.ts'
import { endLockout } from './lockout.ts'
import { mayMail } from './mail-trust.ts'
import { issueToken, tokenHolder, useToken } from './mailed-tokens.ts'
import { endStaleSignIns } from './stale-sign-ins.ts'
import { wholeUser } from './whole-user.ts'

const GONE = 'The token is wrong, was used already, or has expired; ask for another mail'

/** Sends a mail by which a password can be set anew, where the address is known. */
export async function forgotPassword(
  deps: SignInDeps,
  { body }: Input<typeof api.forgotPassword>,
  context: Context<typeof api.forgotPassword>,
) {
  const account = await mailableAccount(deps.db.read, body.email, now(deps.clock))
  await deps.db.write((tx) =>
    recordChange(
      tx,
      { deps, principal: context.principal, endpoint: api.forgotPassword },
      { audit: { resourceId: account?.id, details: { email: body.email } } },
    ),
  )
  // What only a known address costs happens after the answer, which therefore comes as fast for an unknown one.
  if (account !== undefined && deps.mailer.isConfigured()) sendAccountMail(deps, account, 'reset')
  return null
}

/** Whether a token of such a mail is still good. */
export async function validateReset(deps: SignInDeps, { query }: Input<typeof api.validateReset>) {
  return { valid: (await tokenHolder(deps.db.read, query.token, 'reset', deps.clock.nowMs())) !== undefined }
}

/** Sets the password of whom the token was mailed to, and ends their sessions and their lockout. */
export async function resetPassword(
  deps: SignInDeps,
  { body }: Input<typeof api.resetPassword>,
  context: Context<typeof api.resetPassword>,
) {
  const known = await tokenHolder(deps.db.read, body.token, 'reset', deps.clock.nowMs())
  if (known === undefined) context.fail('TOKEN_INVALID', GONE)
  const passwordHash = await deps.passwords.hash(body.password)
  await deps.db.write(async (tx) => {
    const user = (await useToken(tx, body.token, 'reset')) ?? context.fail('TOKEN_INVALID', GONE)
    // It may have been given rights since the mail was sent.
    if (!(await mayMail(tx, deps.settings, await rightsOf(tx, user.id)))) context.fail('TOKEN_INVALID', GONE)
    const change = { passwordHash, emailVerified: 1, updatedAt: tx.now } as const // the mail has arrived, after all
    await tx.q.updateTable('user').set(change).where('id', '=', user.id).execute()
    await tx.q.deleteFrom('session').where('userId', '=', user.id).execute()
    await endStaleSignIns(tx.q, user.id)
    await endUserInvites(tx.q, user.id)
    const by = { deps, principal: ofAccount(context, user.id), endpoint: api.resetPassword }
    await recordChange(tx, by, { audit: { resourceId: user.id } })
    // Whoever reads the mail of the account is no guesser, and has most likely come here because of the lockout.
    await endLockout(deps, tx, { account: user.email, origin: context.origin, userId: user.id })
    tx.onCommit(() => deps.credentials.changed())
  })
  return null
}

/** Confirms the address that the token was mailed to. */
export async function verifyEmail(
  deps: SignInDeps,
  { query }: Input<typeof api.verifyEmail>,
  context: Context<typeof api.verifyEmail>,
) {
  await deps.db.write(async (tx) => {
    const user = (await useToken(tx, query.token, 'verify')) ?? context.fail('TOKEN_INVALID', GONE)
    const { username } = await tx.q
      .updateTable('user')
      .set({ emailVerified: 1, updatedAt: tx.now })
      .where('id', '=', user.id)
      .returning('username')
      .executeTakeFirstOrThrow()
    const data = { userId: user.id, username, updatedBy: user.id, change: 'email_verified' }
    await recordChange(
      tx,
      { deps, principal: ofAccount(context, user.id), endpoint: api.verifyEmail },
      { audit: { resourceId: user.id }, events: [{ type: 'user_updated', data }] },
    )
  })
  return { status: true }
}

/** Mails a new token to confirm the address of the caller. */
export async function resendVerification(
  deps: SignInDeps,
  _: Input<typeof api.resendVerification>,
  context: Context<typeof api.resendVerification>,
) {
  const account = await accountById(deps.db.read, wholeUser(context).userId)
  if (account.emailVerified === 1) return null
  if (!deps.mailer.isConfigured()) context.fail('FEATURE_DISABLED', 'This panel has no mail server to send by')
  const token = await deps.db.write(async (tx) => {
    const made = await issueToken(tx, deps.clock, account, 'verify')
    if (made === undefined) return undefined
    const by = { deps, principal: context.principal, endpoint: api.resendVerification }
    await recordChange(tx, by, { audit: { resourceId: account.id } })
    return made
  })
  if (token === undefined) {
    throw new PanelError('RATE_LIMITED', 'Three mails were sent within an hour; look at your spam folder too', {
      meta: { retryAfterSeconds: 3600 },
    })
  }
  sendMadeToken(deps, account, { purpose: 'verify', token })
  return null
}

/** Who has not signed in, and acts for the account that a mailed token belongs to. */
function ofAccount({ caller, origin }: Pick<Context, 'caller' | 'origin'>, userId: string): Principal {
  return { kind: 'caller', caller, origin, userId }
}
