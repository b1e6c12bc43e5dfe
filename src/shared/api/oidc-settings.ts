import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { ClientId, DiscoveryUrl } from '../kernel/setting-values.ts'

/** How this panel signs in at one provider; `clientSecret` is the mask, or `null`. */
const OidcClient = z.object({
  clientId: z.string().nullable(),
  clientSecret: z.string().nullable(),
  discoveryUrl: z.string().nullable(),
  source: z.enum(['database', 'env', 'file', 'none']),
})

/** The two providers that billing panels are; both are also identity providers with these ids. */
export const OidcConfig = z.object({ whmcs: OidcClient, paymenter: OidcClient, locked: Locked })
export type OidcConfig = z.infer<typeof OidcConfig>

/** The ids of {@link OidcConfig}. */
export const OIDC_CONFIG_IDS = ['whmcs', 'paymenter'] as const

export const getOidcConfig = defineEndpoint({
  id: 'settings.oidc_get',
  tag: 'Admin',
  summary: 'Show how people sign in by WHMCS and Paymenter, secrets masked',
  method: 'GET',
  path: '/api/admin/oidc-config',
  access: { panel: 'admin.read' },
  response: OidcConfig,
})

const cleared = z.literal('')
const Change = z
  .object({
    clientId: z.union([cleared, ClientId]),
    /** `********` keeps the stored one. */
    clientSecret: z.string().max(1024),
    discoveryUrl: z.union([cleared, DiscoveryUrl]),
  })
  .partial()

export const updateOidcConfig = defineEndpoint({
  id: 'settings.oidc_update',
  tag: 'Admin',
  summary: 'Change how people sign in by WHMCS and Paymenter; what is not named stays, "" removes',
  method: 'PATCH',
  path: '/api/admin/oidc-config',
  access: { panel: 'admin.write' },
  body: z.object({ whmcs: Change, paymenter: Change }).partial(),
  ignores: ['locked', 'whmcs.source', 'paymenter.source'],
  response: OidcConfig,
  errors: ['SETTING_LOCKED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'settings.oidc_update', resource: 'oidc_config' },
})
