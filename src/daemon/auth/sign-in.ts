import * as api from '../../shared/api/auth.ts'
import type { Context, Route } from '../core/route.ts'
import { route } from '../core/route.ts'
import { type Account, accountById, findAccount, isBanned, profileOf } from './accounts.ts'
import type { AccountDeps } from './deps.ts'
import { type Attempt, countedAddress, forgetFailures, recordFailure, refuseLocked } from './lockout.ts'
import { createSession, KEPT_COOKIE_SECONDS } from './sessions.ts'
import { isSetupRequired } from './setup-state.ts'
import type { Turns } from './turns.ts'

/** What a check of a password works with: attempts of one address happen one after the other, so each sees the last. */
export interface PasswordCheckDeps extends AccountDeps {
  readonly turns: Turns
}

/** The route of the sign-in by password. */
export function signInRoutes(deps: PasswordCheckDeps): Route[] {
  return [
    route(api.login, async ({ body }, context) => {
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
        return signIn(deps, context, { account, attempt, persistent: body.rememberMe })
      })
    }),
  ]
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

async function signIn(
  deps: AccountDeps,
  context: Context<typeof api.login>,
  { account, attempt, persistent }: { account: Account; attempt: Attempt; persistent: boolean },
) {
  const { token, profile } = await deps.db.write(async (tx) => {
    const current = await accountById(tx.q, account.id)
    if (current.passwordHash !== account.passwordHash) {
      context.fail('INVALID_CREDENTIALS', 'The password was changed at this moment; sign in with the new one')
    }
    if (isBanned(current, tx.now)) context.fail('ACCOUNT_BANNED', 'This account is banned; ask an administrator')
    await forgetFailures(tx.q, attempt)
    await tx.q.updateTable('user').set({ lastSuccessfulLogin: tx.now }).where('id', '=', account.id).execute()
    const made = await createSession(tx, deps.clock, { userId: account.id, origin: context.origin, persistent })
    const actor = { caller: undefined, origin: context.origin, userId: account.id }
    await deps.audit.record(tx, actor, { action: 'auth.login', resource: 'user', resourceId: account.id })
    return { token: made, profile: await profileOf(tx.q, account.id) }
  })
  context.setSession(token, persistent ? KEPT_COOKIE_SECONDS : undefined)
  const { id: userId, createdAt: _, ...rest } = profile
  return { ...rest, userId, token }
}
