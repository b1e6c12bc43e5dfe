import * as api from '../../../../shared/api/providers.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { operationsOver, recordChange } from '../../../access/operation.ts'
import type { NewEvent } from '../../../core/bus.ts'
import type { Tx } from '../../../db/db.ts'
import { offsetOf } from '../../../db/paging.ts'
import type { Context } from '../../../http/route.ts'
import { holderNow } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { SsoDeps } from './deps.ts'
import { changeProvider, ensureMayEnd } from './provider-edit.ts'
import { findProvider, isConfigured, listConfigured, type ProviderEntry, shownProvider } from './provider-rows.ts'
import { testProvider } from './provider-test.ts'

/** One page of the providers that are configured. */
export async function listProviders(deps: SsoDeps, { query }: Input<typeof api.listProviders>) {
  const { db, settings } = deps
  const all = await listConfigured(db.read, settings)
  const from = offsetOf(query)
  const items = all
    .slice(from, from + query.limit)
    .map(({ id, name, enabled }) => ({ id, name, enabled, type: 'oidc' as const }))
  return { items, total: all.length }
}

/** One provider as administrators see it. */
export async function getProvider(deps: SsoDeps, { params }: Input<typeof api.getProvider>) {
  return shownProvider(await providerOf(deps, params.providerId), deps.publicUrl())
}

/** Tests a provider, and writes down how that went: it is asked before the transaction. */
export async function testAndRecord(
  deps: SsoDeps,
  { params: { providerId } }: Input<typeof api.testProvider>,
  { principal }: Context<typeof api.testProvider>,
) {
  const provider = await providerOf(deps, providerId)
  const result = await testProvider(deps, provider)
  await deps.db.write((tx) =>
    recordChange(tx, { deps, principal, endpoint: api.testProvider }, { audit: testRow(provider.id, result) }),
  )
  return result
}

const operation = operationsOver<SsoDeps>()

export const putProvider = operation(api.putProvider, async (work, { params: { providerId: id }, body }) => {
  const { tx, deps } = work
  const holder = await holderNow(work)
  if ((await findProvider(tx.q, deps.settings, id)) === undefined) {
    if (body.clientId === undefined && body.discoveryUrl === undefined) throw gone(id)
    if (body.clientId === undefined) throw fieldError('body.clientId', 'is required for a new provider')
    if (body.discoveryUrl === undefined) throw fieldError('body.discoveryUrl', 'is required for a new provider')
  }
  const details = await changeProvider(tx, deps, holder, { id, change: body })
  const provider = await findProvider(tx.q, deps.settings, id)
  if (provider === undefined) throw gone(id)
  const answer = shownProvider(provider, deps.publicUrl())
  if (Object.keys(details).length === 0) return { answer }
  return { answer, audit: { resourceId: id, details }, events: [settingsUpdated(work)] }
})

export const deleteProvider = operation(api.deleteProvider, async (work, { params: { providerId: id } }) => {
  const { tx, deps } = work
  const holder = await holderNow(work)
  const provider = await findProvider(tx.q, deps.settings, id)
  if (provider === undefined || provider.createdAt === null) throw gone(id)
  await ensureMayEnd(tx, holder, provider)
  const { accounts, roles } = await endLinks(tx, id)
  await tx.q.deleteFrom('identityProvider').where('id', '=', id).execute()
  await ensureAdminLeft(tx)
  tx.onCommit(() => deps.credentials.changed())
  const details = { name: provider.name, accounts, roles }
  return { answer: null, audit: { resourceId: id, details }, events: [settingsUpdated(work)] }
})

function testRow(resourceId: string, { ok, step, error }: Awaited<ReturnType<typeof testProvider>>) {
  const details = { ok, ...(step === undefined ? {} : { step }), ...(error === undefined ? {} : { error }) }
  return { resourceId, details }
}

/** A provider that people may sign in by now. */
export async function usableProvider(deps: Pick<SsoDeps, 'db' | 'settings'>, id: string): Promise<ProviderEntry> {
  const provider = await findProvider(deps.db.read, deps.settings, id)
  if (provider === undefined || !isConfigured(provider)) throw gone(id)
  if (!provider.enabled) throw new PanelError('PROVIDER_DISABLED', `${provider.name} is switched off`)
  return provider
}

/** What announces to administrators that something about sign-in by providers has changed. */
export function settingsUpdated({ userId: updatedBy }: { readonly userId: string | null }): NewEvent {
  return { type: 'oidc_settings_updated', data: { updatedBy } }
}

async function providerOf({ db, settings }: SsoDeps, id: string): Promise<ProviderEntry> {
  const provider = await findProvider(db.read, settings, id)
  if (provider === undefined) throw gone(id)
  return provider
}

function gone(id: string): PanelError {
  return new PanelError(
    'PROVIDER_NOT_FOUND',
    `There is no identity provider ${id}; client id and discovery URL make one`,
  )
}

/** Takes the roles back that the provider gave, and the links to it; answers how many of each there were. */
async function endLinks(tx: Tx, id: string): Promise<{ accounts: number; roles: number }> {
  const given = await tx.q
    .selectFrom('identityRole')
    .innerJoin('identity', 'identity.id', 'identityRole.identityId')
    .select(['identity.userId', 'identityRole.roleId'])
    .where('identity.providerId', '=', id)
    .execute()
  for (const { userId, roleId } of given) {
    await tx.q.deleteFrom('userRole').where('userId', '=', userId).where('roleId', '=', roleId).execute()
  }
  const { numDeletedRows } = await tx.q.deleteFrom('identity').where('providerId', '=', id).executeTakeFirst()
  return { accounts: Number(numDeletedRows), roles: given.length }
}
