import type { Route } from '../../../http/route.ts'
import type { SignInDeps } from '../auth/deps.ts'
import { createTurns } from '../auth/turns.ts'
import { ownPasskeyRoutes } from './own-passkeys.ts'
import { passkeySignInRoutes } from './sign-in.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of passkeys and of sign-in by them. */
export function passkeyRoutes(given: Omit<SignInDeps, 'turns'>): Route[] {
  const deps = { ...given, turns: createTurns(WAITING_PER_ADDRESS) }
  return [...ownPasskeyRoutes(deps), ...passkeySignInRoutes(deps)]
}
