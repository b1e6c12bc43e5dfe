import type * as api from '../../../../shared/api/sso.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import type { Context } from '../../../http/route.ts'
import { accountById } from '../auth/accounts.ts'
import { finishFirstFactor } from '../auth/sign-in.ts'
import { codeInvalid, takeCode } from './codes.ts'
import type { SsoDeps } from './deps.ts'

/** Gives a program the session that its browser was signed in for. */
export async function exchangeSsoCode(
  deps: SsoDeps,
  { body }: Input<typeof api.exchangeSsoCode>,
  context: Context<typeof api.exchangeSsoCode>,
) {
  const { userId, linking } = await takeCode(deps.db, body)
  if (linking !== null) throw codeInvalid()
  const account = await accountById(deps.db.read, userId)
  const attempt = { account: account.email, origin: context.origin }
  return finishFirstFactor(deps, context, { account, attempt, persistent: false })
}
