import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { ProviderId, RoleId } from '../kernel/ids.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { pageQuery } from '../kernel/page.ts'
import { ClientId, DiscoveryUrl, OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'

/** Members of `group` at the provider get the role; the group `*` are all whom it signs in. */
export const RoleMapping = z.object({ group: z.string().trim().min(1).max(255), roleId: RoleId })
export type RoleMapping = z.infer<typeof RoleMapping>

/** An identity provider as everybody sees it before sign-in. */
export const ListedProvider = z.object({
  id: z.string(),
  name: z.string(),
  enabled: z.boolean(),
  type: z.literal('oidc'),
})
export type ListedProvider = z.infer<typeof ListedProvider>

/** An identity provider as administrators see it; `clientSecret` is the mask, or `null`. */
export const Provider = ListedProvider.extend({
  clientId: z.string().nullable(),
  clientSecret: z.string().nullable(),
  discoveryUrl: z.string().nullable(),
  /** What decides client and address: the database, or file or environment. */
  source: z.enum(['database', 'env', 'file', 'none']),
  /** Asked for beside `openid`. */
  scopes: z.array(z.string()),
  /** The domains of e-mail addresses for which the provider's word counts; `*` is any. */
  allowedDomains: z.array(z.string()),
  /** Makes an account for whom the panel does not know yet. */
  createAccounts: z.boolean(),
  /** Signs in to the account that has the same address, confirmed on both sides. */
  linkByEmail: z.boolean(),
  /** The claim that lists a person's groups. */
  groupClaim: z.string().nullable(),
  roleMapping: z.array(RoleMapping),
  /** What the provider must know as the redirect address of this panel. */
  callbackUrl: z.string(),
  locked: Locked,
  createdAt: IsoTime.nullable(),
  updatedAt: IsoTime.nullable(),
})
export type Provider = z.infer<typeof Provider>

const params = { providerId: ProviderId }

export const listProviders = defineEndpoint({
  id: 'providers.list',
  tag: 'Providers',
  summary: 'List the identity providers by name',
  method: 'GET',
  path: '/api/providers',
  access: 'public',
  query: pageQuery(),
  response: z.array(ListedProvider),
  paged: true,
})

export const getProvider = defineEndpoint({
  id: 'providers.get',
  tag: 'Providers',
  summary: 'Show an identity provider, its secret masked',
  method: 'GET',
  path: '/api/providers/:providerId',
  access: { panel: 'admin.read' },
  params,
  response: Provider,
  errors: ['PROVIDER_NOT_FOUND'],
})

const Domain = z
  .string()
  .trim()
  .toLowerCase()
  .max(253)
  .regex(/^(\*|[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+)$/, 'must be a domain, or *')

const Scope = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,100}$/, 'must be a scope without blanks')

export const putProvider = defineEndpoint({
  id: 'providers.put',
  tag: 'Providers',
  summary: 'Add an identity provider, or change the fields that are named',
  method: 'PUT',
  path: '/api/providers/:providerId',
  access: { panel: 'admin.write' },
  params,
  body: z
    .object({
      name: OneLine.trim().min(1).max(64),
      clientId: ClientId,
      /** `********` keeps the stored one, `null` removes it: a public client. */
      clientSecret: z.string().min(1).max(1024).nullable(),
      discoveryUrl: DiscoveryUrl,
      enabled: z.boolean(),
      scopes: z.array(Scope).max(20),
      allowedDomains: z.array(Domain).max(100),
      createAccounts: z.boolean(),
      linkByEmail: z.boolean(),
      groupClaim: OneLine.min(1).max(255).nullable(),
      roleMapping: z.array(RoleMapping).max(200),
    })
    .partial(),
  response: Provider,
  errors: ['CONFLICT', 'PROVIDER_NOT_FOUND', 'ROLE_NOT_FOUND', 'SETTING_LOCKED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'provider.update', resource: 'identity_provider' },
})

export const deleteProvider = defineEndpoint({
  id: 'providers.delete',
  tag: 'Providers',
  summary: 'Remove an identity provider, the links of accounts to it and the roles that it gave',
  method: 'DELETE',
  path: '/api/providers/:providerId',
  access: { panel: 'admin.write' },
  params,
  response: NoData,
  errors: ['PROVIDER_NOT_FOUND', 'LAST_ADMIN'],
  audit: { action: 'provider.delete', resource: 'identity_provider' },
})

/** How a look at the provider went; one that cannot be used is an answer, not a failure of the request. */
export const ProviderTest = z.object({
  ok: z.boolean(),
  issuer: z.string().optional(),
  /** Where in the sign-in the trouble is. */
  step: z.enum(['settings', 'discovery', 'keys', 'client']).optional(),
  error: z.string().optional(),
})
export type ProviderTest = z.infer<typeof ProviderTest>

export const testProvider = defineEndpoint({
  id: 'providers.test',
  tag: 'Providers',
  summary: 'Ask the identity provider for its description and its keys, and whether it knows this client',
  method: 'POST',
  path: '/api/providers/:providerId/test',
  access: { panel: 'admin.write' },
  params,
  response: ProviderTest,
  errors: ['PROVIDER_NOT_FOUND'],
  audit: { action: 'provider.test', resource: 'identity_provider' },
})
