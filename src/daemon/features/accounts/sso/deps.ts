import type { Log } from '../../../core/log.ts'
import type { SignInDeps } from '../auth/deps.ts'
import type { ProviderClients } from './provider-clients.ts'

/** What sign-in by identity providers works with. */
export interface SsoDeps extends SignInDeps {
  readonly log: Log
  readonly clients: ProviderClients
}
