import * as api from '../../../../shared/api/account-recovery.ts'
import { type Route, route } from '../../../http/route.ts'
import type { SignInDeps } from './deps.ts'
import * as recovery from './recovery.ts'
import { register } from './register.ts'

/** The routes by which people come to an account, and back to it, by mail. */
export function recoveryRoutes(deps: SignInDeps): Route[] {
  return [
    route(api.forgotPassword, (input, context) => recovery.forgotPassword(deps, input, context)),
    route(api.validateReset, (input) => recovery.validateReset(deps, input)),
    route(api.resetPassword, (input, context) => recovery.resetPassword(deps, input, context)),
    route(api.register, ({ body }, context) => register(deps, context, body)),
    route(api.verifyEmail, (input, context) => recovery.verifyEmail(deps, input, context)),
    route(api.resendVerification, (input, context) => recovery.resendVerification(deps, input, context)),
  ]
}
