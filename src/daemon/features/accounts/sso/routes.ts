import type { Route } from '../../../http/route.ts'
import { createTurns } from '../auth/turns.ts'
import { beginRoutes } from './begin.ts'
import { callbackRoutes } from './callback.ts'
import type { SsoDeps } from './deps.ts'
import { exchangeRoutes } from './exchange.ts'
import { linkedAccountRoutes } from './linked-accounts.ts'
import { oidcSettingsRoutes } from './oidc-settings.ts'
import { createProviderClients } from './provider-clients.ts'
import { providerRoutes } from './providers.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of identity providers and of sign-in by them. */
export function ssoRoutes(given: Omit<SsoDeps, 'turns' | 'clients'>): Route[] {
  const deps = { ...given, turns: createTurns(WAITING_PER_ADDRESS), clients: createProviderClients(given) }
  return [
    ...providerRoutes(deps),
    ...oidcSettingsRoutes(deps),
    ...beginRoutes(deps),
    ...callbackRoutes(deps),
    ...exchangeRoutes(deps),
    ...linkedAccountRoutes(deps),
  ]
}
