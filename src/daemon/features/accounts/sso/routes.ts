import * as settingsApi from '../../../../shared/api/oidc-settings.ts'
import * as providersApi from '../../../../shared/api/providers.ts'
import * as api from '../../../../shared/api/sso.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { createTurns } from '../auth/turns.ts'
import { wholeUser } from '../auth/whole-user.ts'
import { begin, startSso } from './begin.ts'
import { ssoCallback } from './callback.ts'
import type { SsoDeps } from './deps.ts'
import { exchangeSsoCode } from './exchange.ts'
import * as linked from './linked-accounts.ts'
import { oidcConfig, updateOidcConfig } from './oidc-settings.ts'
import { createProviderClients } from './provider-clients.ts'
import * as providers from './providers.ts'

/** Sign-ins of one address that may wait for each other. */
const WAITING_PER_ADDRESS = 1000

/** The routes of identity providers and of sign-in by them. */
export function ssoRoutes(given: Omit<SsoDeps, 'turns' | 'clients'>): Route[] {
  const deps = { ...given, turns: createTurns(WAITING_PER_ADDRESS), clients: createProviderClients(given) }
  return [...providerRoutes(deps), ...signInRoutes(deps), ...linkedAccountRoutes(deps)]
}

/** Providers as resources, and the settings page of the two that billing panels are: another view of the same rows. */
function providerRoutes(deps: SsoDeps): Route[] {
  return [
    route(providersApi.listProviders, (input) => providers.listProviders(deps, input)),
    route(providersApi.getProvider, (input) => providers.getProvider(deps, input)),
    operate(providers.putProvider, deps),
    operate(providers.deleteProvider, deps),
    route(providersApi.testProvider, (input, context) => providers.testAndRecord(deps, input, context)),
    route(settingsApi.getOidcConfig, () => oidcConfig(deps, deps.db.read)),
    operate(updateOidcConfig, deps),
  ]
}

/** They send a browser to a provider, take it back, and give the program behind it its session. */
function signInRoutes(deps: SsoDeps): Route[] {
  return [
    route(api.signInByProvider, ({ body }, context) => begin(deps, context, { ...body, userId: null })),
    route(api.startSso, (input, context) => startSso(deps, input, context)),
    route(api.ssoCallback, (input, context) => ssoCallback(deps, input, context)),
    route(api.exchangeSsoCode, (input, context) => exchangeSsoCode(deps, input, context)),
  ]
}

/** One's own accounts at providers. */
function linkedAccountRoutes(deps: SsoDeps): Route[] {
  return [
    route(api.linkSsoAccount, ({ body }, context) =>
      begin(deps, context, { ...body, userId: wholeUser(context).userId }),
    ),
    route(api.listSsoAccounts, (input, context) => linked.listSsoAccounts(deps, input, context)),
    route(api.completeSsoLink, (input, context) => linked.completeSsoLink(deps, input, context)),
    operate(linked.unlinkSsoAccount, deps),
  ]
}
