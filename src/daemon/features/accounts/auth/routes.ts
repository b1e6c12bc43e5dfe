import * as authApi from '../../../../shared/api/auth.ts'
import * as twoFactorApi from '../../../../shared/api/two-factor.ts'
import { type Route, route } from '../../../http/route.ts'
import { apiKeyRoutes } from './api-key-routes.ts'
import type { ApiKeyDeps } from './api-keys.ts'
import type { AccountDeps, SignInDeps } from './deps.ts'
import { lockoutRoutes } from './lockout-routes.ts'
import { ownAccountRoutes } from './own-account-routes.ts'
import { recoveryRoutes } from './recovery-routes.ts'
import { verifyRecoveryCode, verifyTotp } from './second-factor.ts'
import { completeSetup, type SetupGate } from './setup.ts'
import { isSetupRequired } from './setup-state.ts'
import { login } from './sign-in.ts'
import { createTurns } from './turns.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of setup, sign-in, second factors, one's own account, lockouts and API keys. */
export function authRoutes(deps: ApiKeyDeps & Omit<SignInDeps, 'turns'> & { gate: SetupGate }): Route[] {
  const withTurns = { ...deps, turns: createTurns(WAITING_PER_ADDRESS) }
  return [
    ...setupRoutes(deps),
    ...signInRoutes(withTurns),
    ...ownAccountRoutes(withTurns),
    ...recoveryRoutes(withTurns),
    ...lockoutRoutes(deps),
    ...apiKeyRoutes(deps),
  ]
}

function setupRoutes(deps: AccountDeps & { gate: SetupGate }): Route[] {
  return [
    route(authApi.getSetupStatus, async () => ({ setupRequired: await isSetupRequired(deps.db.read, deps.settings) })),
    route(authApi.completeSetup, (input, context) => completeSetup(deps, input, context)),
  ]
}

/** By password, and by the code that follows it: of the authenticator, or one of the recovery codes. */
function signInRoutes(deps: SignInDeps): Route[] {
  return [
    route(authApi.login, (input, context) => login(deps, input, context)),
    route(twoFactorApi.verifyTotp, (input, context) => verifyTotp(deps, input, context)),
    route(twoFactorApi.verifyRecoveryCode, (input, context) => verifyRecoveryCode(deps, input, context)),
  ]
}
