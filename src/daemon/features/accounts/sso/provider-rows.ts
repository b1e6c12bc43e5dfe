import { z } from 'zod'
import type { Provider, RoleMapping } from '../../../../shared/api/providers.ts'
import { RoleId } from '../../../../shared/kernel/ids.ts'
import type { Locked } from '../../../../shared/kernel/locked-settings.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { FixedSetting, SettingKey, Settings } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'

/** Everything the panel knows about a provider; what file or environment fix stands in the place of what is stored. */
export interface ProviderEntry {
  readonly id: string
  readonly name: string
  readonly clientId: string | null
  readonly secret: StoredSecret | null
  readonly discoveryUrl: string | null
  readonly enabled: boolean
  readonly scopes: readonly string[]
  readonly allowedDomains: readonly string[]
  readonly createAccounts: boolean
  readonly linkByEmail: boolean
  readonly groupClaim: string | null
  readonly roleMapping: readonly RoleMapping[]
  /** What the one who configured it may give. */
  readonly vouched: readonly string[]
  readonly fixed: Readonly<Partial<Record<FixableField, FixedSetting>>>
  readonly createdAt: IsoTime | null
  readonly updatedAt: IsoTime | null
}

/** A secret as it stands: sealed in the table, in clear in a file or variable of this machine. */
type StoredSecret = { readonly sealed: string } | { readonly clear: string }

/** The fields that file or environment can fix, of the providers that have settings of their own. */
export type FixableField = 'clientId' | 'clientSecret' | 'discoveryUrl'

const FIXABLE: Readonly<Record<string, Readonly<Record<FixableField, SettingKey>>>> = {
  whmcs: {
    clientId: 'oidc.whmcsClientId',
    clientSecret: 'oidc.whmcsClientSecret',
    discoveryUrl: 'oidc.whmcsDiscoveryUrl',
  },
  paymenter: {
    clientId: 'oidc.paymenterClientId',
    clientSecret: 'oidc.paymenterClientSecret',
    discoveryUrl: 'oidc.paymenterDiscoveryUrl',
  },
}
const FIXABLE_NAMES: Readonly<Record<string, string>> = { whmcs: 'WHMCS', paymenter: 'Paymenter' }
/** Whoever can write the daemon's own configuration may give everything. */
const OPERATOR = ['*']
const DEFAULT_SCOPES = ['profile', 'email']
const Texts = z.array(z.string())

/** The place that a stored secret is sealed for. */
export const secretPlace = (id: string): string => `identity_provider.client_secret ${id}`

/** The provider with this id, stored or fixed by file or environment. */
export async function findProvider(q: Queries, settings: Settings, id: string): Promise<ProviderEntry | undefined> {
  const row = await q.selectFrom('identityProvider').selectAll().where('id', '=', id).executeTakeFirst()
  const fixed = fixedFields(settings, id)
  if (row === undefined && Object.keys(fixed).length === 0) return undefined
  const mapping = await q
    .selectFrom('providerRole')
    .select(['groupName', 'roleId'])
    .where('providerId', '=', id)
    .orderBy('groupName')
    .orderBy('roleId')
    .execute()
  const text = (field: 'clientId' | 'discoveryUrl'): string | null =>
    fixed[field] === undefined ? (row?.[field] ?? null) : String(fixed[field].value)
  const sealed = row?.clientSecret ?? null
  const clear = fixed.clientSecret
  return {
    id,
    name: row?.name ?? FIXABLE_NAMES[id] ?? id,
    clientId: text('clientId'),
    secret: clear !== undefined ? { clear: String(clear.value) } : sealed === null ? null : { sealed },
    discoveryUrl: text('discoveryUrl'),
    enabled: row === undefined || row.enabled === 1,
    scopes: row === undefined ? DEFAULT_SCOPES : parseJson(Texts, row.scopes),
    allowedDomains: row === undefined ? [] : parseJson(Texts, row.allowedDomains),
    createAccounts: row?.createAccounts === 1,
    linkByEmail: row?.linkByEmail === 1,
    groupClaim: row?.groupClaim ?? null,
    roleMapping: mapping.map(({ groupName, roleId }) => ({ group: groupName, roleId: RoleId.parse(roleId) })),
    vouched: row === undefined ? OPERATOR : parseJson(PermissionList, row.vouched),
    fixed,
    createdAt: row?.createdAt ?? null,
    updatedAt: row?.updatedAt ?? null,
  }
}

/** A provider that nobody has described yet. */
export function blankProvider(settings: Settings, id: string): ProviderEntry {
  return {
    id,
    name: FIXABLE_NAMES[id] ?? id,
    clientId: null,
    secret: null,
    discoveryUrl: null,
    enabled: true,
    scopes: DEFAULT_SCOPES,
    allowedDomains: [],
    createAccounts: false,
    linkByEmail: false,
    groupClaim: null,
    roleMapping: [],
    vouched: [],
    fixed: fixedFields(settings, id),
    createdAt: null,
    updatedAt: null,
  }
}

/** The providers that can be used, enabled or not, by name; those with neither client nor address are left out. */
export async function listConfigured(q: Queries, settings: Settings) {
  const rows = await q.selectFrom('identityProvider').select(['id']).execute()
  const ids = new Set([...rows.map(({ id }) => id), ...Object.keys(FIXABLE)])
  const all = await Promise.all([...ids].map((id) => findProvider(q, settings, id)))
  return all
    .filter((one) => one !== undefined)
    .filter(isConfigured)
    .sort((a, b) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id))
}

/** Whether enough is known to sign in by it. */
export function isConfigured(provider: Pick<ProviderEntry, 'clientId' | 'discoveryUrl'>): boolean {
  return provider.clientId !== null && provider.discoveryUrl !== null
}

/** The secret in clear; fails with CREDENTIAL_ENCRYPTION_KEY_MISSING when it is sealed and there is no key. */
export function openSecret(vault: Vault, { id, secret }: Pick<ProviderEntry, 'id' | 'secret'>): string | null {
  if (secret === null) return null
  return 'clear' in secret ? secret.clear : vault.open(secretPlace(id), secret.sealed)
}

/** Where the provider sends browsers back to. */
export function callbackUrl(publicUrl: string, id: string): string {
  return new URL(`/api/auth/oauth2/callback/${id}`, publicUrl).href
}

/** The provider as administrators see it. */
export function shownProvider(provider: ProviderEntry, publicUrl: string): Provider {
  const { secret, fixed, vouched: _, ...rest } = provider
  const locked: Locked = Object.fromEntries(Object.entries(fixed).map(([field, { source }]) => [field, source]))
  return {
    ...rest,
    type: 'oidc',
    clientSecret: secret === null ? null : SECRET_MASK,
    source: sourceOf(provider),
    scopes: [...rest.scopes],
    allowedDomains: [...rest.allowedDomains],
    roleMapping: [...rest.roleMapping],
    callbackUrl: callbackUrl(publicUrl, provider.id),
    locked,
  }
}

/** What decides client and address. */
export function sourceOf(provider: ProviderEntry): Provider['source'] {
  const [first] = Object.values(provider.fixed)
  if (first !== undefined) return first.source
  return provider.clientId === null && provider.discoveryUrl === null && provider.secret === null ? 'none' : 'database'
}

function fixedFields(settings: Settings, id: string): ProviderEntry['fixed'] {
  const keys = FIXABLE[id]
  if (keys === undefined) return {}
  const fields = ['clientId', 'clientSecret', 'discoveryUrl'] as const
  return Object.fromEntries(
    fields.flatMap((field) => {
      const fixed = settings.fixed(keys[field])
      return fixed === undefined ? [] : [[field, fixed]]
    }),
  )
}
