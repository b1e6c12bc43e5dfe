import * as api from '../../../../shared/api/oidc-settings.ts'
import type { Locked } from '../../../../shared/kernel/locked-settings.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'
import { holderNow } from '../auth/grant-cap.ts'
import type { SsoDeps } from './deps.ts'
import { changeProvider, type ProviderChange } from './provider-edit.ts'
import { blankProvider, findProvider, isConfigured, sourceOf } from './provider-rows.ts'
import { settingsUpdated } from './providers.ts'

export const updateOidcConfig = operationsOver<SsoDeps>()(api.updateOidcConfig, async (work, { body }) => {
  const { tx, deps } = work
  const holder = await holderNow(work)
  const details: Record<string, unknown> = {}
  for (const id of api.OIDC_CONFIG_IDS) {
    const given = body[id]
    if (given === undefined || Object.keys(given).length === 0) continue
    const changed = await changeProvider(tx, deps, holder, { id, change: cleared(given) })
    if (Object.keys(changed).length === 0) continue
    const side = (name: 'before' | 'after') =>
      Object.fromEntries(Object.entries(changed).map(([field, values]) => [field, values[name]]))
    details[id] = { before: side('before'), after: side('after') }
  }
  const answer = await oidcConfig(deps, tx.q)
  if (Object.keys(details).length === 0) return { answer }
  return { answer, audit: { resourceId: 'oidc', details }, events: [settingsUpdated(work)] }
})

/** Which of the two people can sign in by now, for pages before sign-in. */
export async function authProviders(q: Queries, settings: Settings) {
  const usable = async (id: string): Promise<boolean> => {
    const provider = await findProvider(q, settings, id)
    return provider?.enabled === true && isConfigured(provider)
  }
  return { whmcs: await usable('whmcs'), paymenter: await usable('paymenter') }
}

/** "" removes what was set. */
function cleared(given: Readonly<Record<string, string | undefined>>): ProviderChange {
  return Object.fromEntries(Object.entries(given).map(([field, value]) => [field, value === '' ? null : value]))
}

/** The settings of both, as they are answered. */
export async function oidcConfig({ settings }: SsoDeps, q: Queries): Promise<api.OidcConfig> {
  const locked: Locked = {}
  const one = async (id: (typeof api.OIDC_CONFIG_IDS)[number]) => {
    const provider = (await findProvider(q, settings, id)) ?? blankProvider(settings, id)
    for (const [field, { source }] of Object.entries(provider.fixed)) locked[`${id}.${field}`] = source
    const { clientId, discoveryUrl, secret } = provider
    const clientSecret = secret === null ? null : SECRET_MASK
    return { clientId, clientSecret, discoveryUrl, source: sourceOf(provider) }
  }
  return { whmcs: await one('whmcs'), paymenter: await one('paymenter'), locked }
}
