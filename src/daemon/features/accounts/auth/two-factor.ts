import * as api from '../../../../shared/api/two-factor.ts'
import type { Endpoint, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Caller } from '../../../access/caller.ts'
import { recordChange } from '../../../access/operation.ts'
import type { Context } from '../../../http/route.ts'
import { type Account, accountById } from './accounts.ts'
import type { SignInDeps } from './deps.ts'
import { checkPassword, refuseWithoutPassword } from './sign-in.ts'
import { newTotpSecret, totpUri } from './totp.ts'
import { beginTwoFactor, codesLeft, endTwoFactor, findTwoFactor, renewCodes } from './two-factor-rows.ts'
import { wholeUser } from './whole-user.ts'

/** Where the secret of a second factor is sealed for. */
export const sealPlace = (userId: string): string => `two_factor.secret ${userId}`

/** Whether the sign-in of the caller asks for a second factor. */
export async function getTwoFactor(
  deps: SignInDeps,
  _: Input<typeof api.getTwoFactor>,
  context: Context<typeof api.getTwoFactor>,
) {
  const { userId } = wholeUser(context)
  const factor = await findTwoFactor(deps.db.read, userId)
  const twoFactorEnabled = typeof factor?.confirmedAt === 'string'
  return { twoFactorEnabled, backupCodesLeft: twoFactorEnabled ? await codesLeft(deps.db.read, userId) : 0 }
}

/** Begins with a second factor; its first right code confirms it. */
export async function enableTwoFactor(
  deps: SignInDeps,
  { body }: Input<typeof api.enableTwoFactor>,
  context: Context<typeof api.enableTwoFactor>,
) {
  const account = await knownByPassword(deps, context, body.password)
  const secret = newTotpSecret()
  const sealed = deps.vault.seal(sealPlace(account.id), secret)
  const backupCodes = await deps.db.write(async (tx) => {
    if (!(await beginTwoFactor(tx, account.id, sealed))) {
      context.fail('CONFLICT', 'Your sign-in asks for a second factor already; disable it first')
    }
    await recordChange(
      tx,
      { deps, principal: context.principal, endpoint: api.enableTwoFactor },
      { audit: { resourceId: account.id } },
    )
    return renewCodes(tx.q, account.id)
  })
  return { totpURI: totpUri(deps.settings, account.email, secret), backupCodes }
}

/** Ends the second factor, after a look at the password. */
export async function disableTwoFactor(
  deps: SignInDeps,
  { body }: Input<typeof api.disableTwoFactor>,
  context: Context<typeof api.disableTwoFactor>,
) {
  const { id } = await knownByPassword(deps, context, body.password)
  await deps.db.write(async (tx) => {
    if (!(await endTwoFactor(tx.q, id))) return
    await recordChange(
      tx,
      { deps, principal: context.principal, endpoint: api.disableTwoFactor },
      { audit: { resourceId: id } },
    )
  })
  return { status: true }
}

/** Puts new recovery codes in the place of the old ones. */
export async function renewRecoveryCodes(
  deps: SignInDeps,
  { body }: Input<typeof api.renewRecoveryCodes>,
  context: Context<typeof api.renewRecoveryCodes>,
) {
  const { id } = await knownByPassword(deps, context, body.password)
  const backupCodes = await deps.db.write(async (tx) => {
    if ((await findTwoFactor(tx.q, id)) === undefined) {
      context.fail('CONFLICT', 'Your sign-in asks for no second factor; enable it first')
    }
    await recordChange(
      tx,
      { deps, principal: context.principal, endpoint: api.renewRecoveryCodes },
      { audit: { resourceId: id } },
    )
    return renewCodes(tx.q, id)
  })
  return { backupCodes }
}

/** The caller's account after a check of the password; a wrong one counts as a failed sign-in. */
export async function knownByPassword(
  deps: SignInDeps,
  context: Pick<Context<Endpoint>, 'caller' | 'origin'>,
  password: string,
): Promise<Account> {
  const caller: Caller = wholeUser(context)
  const found = await accountById(deps.db.read, caller.userId)
  refuseWithoutPassword(found)
  const attempt = { account: found.email, origin: context.origin, found }
  return deps.turns.take(countedAddress(context.origin.ip), async () => {
    const account = await checkPassword(deps, attempt, password)
    if (account !== undefined) return account
    throw new PanelError('INVALID_CREDENTIALS', 'The password is wrong')
  })
}
