import type { Route } from '../../../http/route.ts'
import { accountDeletionRoutes } from './account-deletion.ts'
import { type ApiKeyDeps, apiKeyRoutes } from './api-keys.ts'
import { avatarRoutes } from './avatar.ts'
import type { SignInDeps } from './deps.ts'
import { lockoutRoutes } from './lockout-routes.ts'
import { ownExportRoutes } from './own-export.ts'
import { ownProfileRoutes } from './own-profile.ts'
import { ownRecordRoutes } from './own-records.ts'
import { profileRoutes } from './profile.ts'
import { recoveryRoutes } from './recovery.ts'
import { secondFactorRoutes } from './second-factor.ts'
import { type SetupGate, setupRoutes } from './setup.ts'
import { signInRoutes } from './sign-in.ts'
import { createTurns } from './turns.ts'
import { twoFactorRoutes } from './two-factor.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of setup, sign-in, second factors, one's own account, lockouts and API keys. */
export function authRoutes(deps: ApiKeyDeps & Omit<SignInDeps, 'turns'> & { gate: SetupGate }): Route[] {
  const withTurns = { ...deps, turns: createTurns(WAITING_PER_ADDRESS) }
  return [
    ...setupRoutes(deps),
    ...signInRoutes(withTurns),
    ...secondFactorRoutes(withTurns),
    ...profileRoutes(withTurns),
    ...ownProfileRoutes(deps),
    ...avatarRoutes(deps),
    ...ownRecordRoutes(deps),
    ...ownExportRoutes(deps),
    ...twoFactorRoutes(withTurns),
    ...recoveryRoutes(withTurns),
    ...accountDeletionRoutes(withTurns),
    ...lockoutRoutes(deps),
    ...apiKeyRoutes(deps),
  ]
}
