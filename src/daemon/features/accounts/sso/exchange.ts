import * as api from '../../../../shared/api/sso.ts'
import { type Route, route } from '../../../http/route.ts'
import { accountById } from '../auth/accounts.ts'
import { finishFirstFactor } from '../auth/sign-in.ts'
import { codeInvalid, takeCode } from './codes.ts'
import type { SsoDeps } from './deps.ts'

/** The route by which a program gets the session that its browser was signed in for. */
export function exchangeRoutes(deps: SsoDeps): Route[] {
  return [
    route(api.exchangeSsoCode, async ({ body }, context) => {
      const { userId, linking } = await takeCode(deps.db, body)
      if (linking !== null) throw codeInvalid()
      const account = await accountById(deps.db.read, userId)
      const attempt = { account: account.email, origin: context.origin }
      return finishFirstFactor(deps, context, { account, attempt, persistent: false })
    }),
  ]
}
