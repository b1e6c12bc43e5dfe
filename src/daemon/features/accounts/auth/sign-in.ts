import * as api from '../../../../shared/api/auth.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import { recordChange, unauthenticated } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { sendAccountMail } from './account-mail.ts'
import { type Account, accountById, findAccount, isBanned, profileOf } from './accounts.ts'
import type { AccountDeps, SignInDeps } from './deps.ts'
import { endUserInvites } from './invite-tokens.ts'
import { type Attempt, forgetFailures, recordFailure, refuseLocked } from './lockout.ts'
import { PENDING_COOKIE, PENDING_SECONDS, postpone } from './pending-sign-in.ts'
import { createSession, KEPT_COOKIE_SECONDS } from './sessions.ts'
import { isSetupRequired } from './setup-state.ts'
import { hasTwoFactor } from './two-factor-rows.ts'

/** Signs in by password, in the turn of the address: a wrong one is counted in a transaction of its own. */
export async function login(deps: SignInDeps, { body }: Input<typeof api.login>, context: Context<typeof api.login>) {
  if (await isSetupRequired(deps.db.read, deps.settings)) {
    context.fail('SETUP_REQUIRED', 'This installation is not set up yet: complete the setup first (panel setup)')
  }
  const typed = body.email.toLowerCase()
  const found = await findAccount(deps.db.read, typed)
  const attempt = { account: found?.email ?? typed, origin: context.origin }
  return deps.turns.take(countedAddress(context.origin.ip), async () => {
    const account = await checkPassword(deps, { ...attempt, found }, body.password)
    if (account === undefined)
      return context.fail('INVALID_CREDENTIALS', 'User name, e-mail address or password is wrong')
    return finishFirstFactor(deps, context, { account, attempt, persistent: body.rememberMe })
  })
}

/**
 * Checks a password within its turn and counts a failure. Fails with ACCOUNT_LOCKED without a look at the password;
 * answers the account as it is now, or `undefined` when the password is wrong or there is no such account.
 */
export async function checkPassword(
  deps: AccountDeps,
  attempt: Attempt & { found: Account | undefined },
  password: string,
): Promise<Account | undefined> {
  await refuseLocked(deps.db.read, attempt, deps.clock.nowMs())
  const account = attempt.found === undefined ? undefined : await accountById(deps.db.read, attempt.found.id)
  if (await deps.passwords.verify(password, account?.passwordHash ?? null)) return account
  await deps.db.write((tx) => recordFailure(deps, tx, { ...attempt, userId: account?.id }))
  return undefined
}

/** Mails the owner of an account without a password, who signs in by other means, what to do before one is asked for. */
export function refuseWithoutPassword({ passwordHash }: Account): void {
  if (passwordHash !== null) return
  throw new PanelError(
    'INVALID_CREDENTIALS',
    'This account has no password yet: give it one first (panel profile password --set)',
  )
}

/** What a sign-in that has passed every check is made of. */
interface Passed {
  readonly account: Account
  readonly attempt: Attempt
  readonly persistent: boolean
  /** Further writes of the same transaction, before all else: they may still refuse. */
  readonly first?: (tx: Tx) => Promise<void>
}

/**
 * Goes on after a first factor that was right, whichever it was: with a session, or with TWO_FACTOR_REQUIRED and a sign-in
 * that waits for the code where the account has a second factor. Fails with ACCOUNT_LOCKED while it is locked here.
 */
export async function finishFirstFactor(
  deps: SignInDeps,
  context: Pick<Context, 'origin' | 'setSession' | 'setCookie'>,
  passed: Omit<Passed, 'first'>,
) {
  const { account, attempt, persistent } = passed
  await refuseLocked(deps.db.read, attempt, deps.clock.nowMs())
  if (!(await hasTwoFactor(deps.db.read, account.id))) return signIn(deps, context, passed)
  const token = await deps.db.write(async (tx) => {
    await ensureMaySignIn(deps, tx, account)
    return postpone(tx, deps.clock, { userId: account.id, persistent })
  })
  context.setCookie(PENDING_COOKIE, token, PENDING_SECONDS)
  const meta = { twoFactorRequired: true, token, expiresInSeconds: PENDING_SECONDS }
  throw new PanelError('TWO_FACTOR_REQUIRED', 'So far all is right; now give the code of your authenticator', { meta })
}

/** Makes the session, in the answer and the cookie. */
export async function signIn(
  deps: SignInDeps,
  context: Pick<Context, 'origin' | 'setSession'>,
  { account, attempt, persistent, first }: Passed,
) {
  const { token, profile } = await deps.db.write(async (tx) => {
    await first?.(tx)
    await ensureMaySignIn(deps, tx, account)
    await forgetFailures(tx.q, attempt)
    await endUserInvites(tx.q, account.id)
    await tx.q.updateTable('user').set({ lastSuccessfulLogin: tx.now }).where('id', '=', account.id).execute()
    const made = await createSession(tx, deps.clock, { userId: account.id, origin: context.origin, persistent })
    const principal = unauthenticated(context.origin, account.id)
    // Whatever the factors were, it is one sign-in.
    await recordChange(tx, { deps, principal, endpoint: api.login }, { audit: { resourceId: account.id } })
    return { token: made, profile: await profileOf(tx.q, account.id) }
  })
  context.setSession(token, persistent ? KEPT_COOKIE_SECONDS : undefined)
  const { id: userId, createdAt: _, ...rest } = profile
  return { ...rest, userId, token }
}

/** Refuses who knows the password and may not sign in all the same. */
async function ensureMaySignIn(deps: SignInDeps, tx: Tx, account: Account): Promise<void> {
  const current = await accountById(tx.q, account.id)
  if (current.passwordHash !== account.passwordHash) {
    throw new PanelError('INVALID_CREDENTIALS', 'The password was changed at this moment; sign in with the new one')
  }
  refuseBanned(current, tx.now)
  if (current.emailVerified === 1 || !deps.mailer.isConfigured()) return
  sendAccountMail(deps, current, 'verify')
  throw new PanelError(
    'EMAIL_NOT_VERIFIED',
    'Confirm your e-mail address first: a mail that says how is on its way to you',
  )
}

function refuseBanned(account: Account, stamp: IsoTime): void {
  if (!isBanned(account, stamp)) return
  const { banReason, banExpires } = account
  const until = banExpires === null ? '' : ` until ${banExpires}`
  throw new PanelError('ACCOUNT_BANNED', `This account is banned${until}; ask an administrator`, {
    meta: { banReason, banExpires },
  })
}
