import * as api from '../../../../shared/api/two-factor.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Caller } from '../../../access/caller.ts'
import { recordChange } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { type Account, accountById, profileOf } from './accounts.ts'
import type { SignInDeps } from './deps.ts'
import { type Attempt, recordFailure, refuseLockedFactor } from './lockout.ts'
import { endPending, findPending, PENDING_COOKIE, type PendingSignIn } from './pending-sign-in.ts'
import { signIn } from './sign-in.ts'
import { stepOf } from './totp.ts'
import { sealPlace } from './two-factor.ts'
import { findTwoFactor, takeCode, takeStep } from './two-factor-rows.ts'
import { wholeUser } from './whole-user.ts'

type Asked = Pick<Context, 'origin' | 'setSession' | 'setCookie' | 'cookie'>

/** Ends a sign-in that waits for a code of the authenticator, or confirms the factor of who is signed in. */
export async function verifyTotp(
  deps: SignInDeps,
  { body }: Input<typeof api.verifyTotp>,
  context: Context<typeof api.verifyTotp>,
) {
  const pending = await pendingOf(deps, context, body.token)
  if (pending !== undefined) {
    return finish(deps, context, { pending, take: (tx, account) => takeTotp(deps, tx, account.id, body.code) })
  }
  const caller = await context.identify()
  if (caller === undefined) throw nothingPending()
  return confirm(deps, context, wholeUser({ caller }), body.code)
}

/** Ends a sign-in that waits for a code by one of the recovery codes, which is used up. */
export async function verifyRecoveryCode(
  deps: SignInDeps,
  { body }: Input<typeof api.verifyRecoveryCode>,
  context: Context<typeof api.verifyRecoveryCode>,
) {
  const pending = await pendingOf(deps, context, body.token)
  if (pending === undefined) throw nothingPending()
  return finish(deps, context, { pending, take: (tx, account) => takeCode(tx.q, account.id, body.code) })
}

async function pendingOf(
  deps: SignInDeps,
  context: Asked,
  given: string | undefined,
): Promise<PendingSignIn | undefined> {
  const token = given ?? context.cookie(PENDING_COOKIE)
  return token === undefined ? undefined : findPending(deps.db.read, token, deps.clock.nowMs())
}

/** Ends a pending sign-in with a code that `take` uses up. */
async function finish(
  deps: SignInDeps,
  context: Asked,
  { pending, take }: { pending: PendingSignIn; take: (tx: Tx, account: Account) => Promise<boolean> },
) {
  const account = await accountById(deps.db.read, pending.userId)
  const attempt = { account: account.email, origin: context.origin }
  return inTurn(deps, context, account.id, async () => {
    await refuseLockedFactor(deps.db.read, attempt, deps.clock.nowMs())
    const persistent = pending.persistent === 1
    const first = async (tx: Tx): Promise<void> => {
      if (!(await endPending(tx.q, pending.id))) throw nothingPending()
      if (!(await take(tx, account))) throw new WrongCode()
    }
    const done = await counting(deps, attempt, account.id, () =>
      signIn(deps, context, { account, attempt, persistent, first }),
    )
    context.setCookie(PENDING_COOKIE, null)
    return done
  })
}

/** Codes are counted for the account as a whole, so those for one account wait for each other wherever they come from. */
function inTurn<T>(deps: SignInDeps, { origin }: Asked, userId: string, work: () => Promise<T>): Promise<T> {
  return deps.turns.take(countedAddress(origin.ip), () => deps.turns.take(`codes of ${userId}`, work))
}

/** Confirms the second factor that the caller has begun with; from now on their sign-in asks for it. */
async function confirm(deps: SignInDeps, context: Asked, caller: Caller, code: string) {
  const account = await accountById(deps.db.read, caller.userId)
  const attempt = { account: account.email, origin: context.origin }
  return deps.turns.take(countedAddress(context.origin.ip), async () => {
    await refuseLockedFactor(deps.db.read, attempt, deps.clock.nowMs())
    return counting(deps, attempt, account.id, () =>
      deps.db.write(async (tx) => {
        const factor = await findTwoFactor(tx.q, account.id)
        if (factor === undefined) throw new PanelError('CONFLICT', 'Begin with two-factor sign-in first (enable)')
        if (!(await takeTotp(deps, tx, account.id, code))) throw new WrongCode()
        if (factor.confirmedAt === null) {
          const principal = { kind: 'caller', caller, origin: context.origin } as const
          await recordChange(
            tx,
            { deps, principal, endpoint: api.verifyTotp },
            { audit: { action: 'auth.2fa_enable', resourceId: account.id } },
          )
        }
        const { id: userId, createdAt: _, ...rest } = await profileOf(tx.q, account.id)
        return { ...rest, userId, token: null }
      }),
    )
  })
}

async function takeTotp(deps: SignInDeps, tx: Tx, userId: string, code: string): Promise<boolean> {
  const factor = await findTwoFactor(tx.q, userId)
  if (factor === undefined) return false
  const step = stepOf(deps.vault.open(sealPlace(userId), factor.secret), code, deps.clock.nowMs())
  return step !== undefined && takeStep(tx, userId, step)
}

/** Undoes the transaction in which a code turned out to be wrong; nobody outside sees it. */
class WrongCode extends Error {}

async function counting<T>(deps: SignInDeps, attempt: Attempt, userId: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof WrongCode)) throw error
    await deps.db.write((tx) => recordFailure(deps, tx, { ...attempt, userId, factor: 'second' }))
    throw new PanelError('TWO_FACTOR_INVALID', 'The code is wrong, or was used before; wait for the next one')
  }
}

function nothingPending(): PanelError {
  return new PanelError('UNAUTHENTICATED', 'There is no sign-in that waits for a code: give your password first')
}
