import type { Route } from '../core/route.ts'
import { type ApiKeyDeps, apiKeyRoutes } from './api-keys.ts'
import { profileRoutes } from './profile.ts'
import { type SetupGate, setupRoutes } from './setup.ts'
import { signInRoutes } from './sign-in.ts'
import { createTurns } from './turns.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of setup, sign-in, sessions, passwords and API keys. */
export function authRoutes(deps: ApiKeyDeps & { gate: SetupGate }): Route[] {
  const withTurns = { ...deps, turns: createTurns(WAITING_PER_ADDRESS) }
  return [...setupRoutes(deps), ...signInRoutes(withTurns), ...profileRoutes(withTurns), ...apiKeyRoutes(deps)]
}
