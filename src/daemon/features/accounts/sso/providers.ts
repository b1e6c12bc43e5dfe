import * as api from '../../../../shared/api/providers.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { offsetOf } from '../../../db/paging.ts'
import { callerOf, type Route, route } from '../../../http/route.ts'
import { stillAllowed } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import type { SsoDeps } from './deps.ts'
import { changeProvider, ensureMayEnd } from './provider-edit.ts'
import { findProvider, isConfigured, listConfigured, type ProviderEntry, shownProvider } from './provider-rows.ts'
import { testProvider } from './provider-test.ts'

/** The routes of identity providers as resources. */
export function providerRoutes(deps: SsoDeps): Route[] {
  const { db, settings } = deps
  return [
    route(api.listProviders, async ({ query }) => {
      const all = await listConfigured(db.read, settings)
      const from = offsetOf(query)
      const items = all
        .slice(from, from + query.limit)
        .map(({ id, name, enabled }) => ({ id, name, enabled, type: 'oidc' as const }))
      return { items, total: all.length }
    }),
    route(api.getProvider, async ({ params }) => {
      return shownProvider(await providerOf(deps, params.providerId), deps.publicUrl())
    }),
    route(api.putProvider, async ({ params, body }, context) => {
      const id = params.providerId
      await db.write(async (tx) => {
        const caller = await stillAllowed(deps.credentials, callerOf(context))
        if ((await findProvider(tx.q, settings, id)) === undefined) {
          if (body.clientId === undefined && body.discoveryUrl === undefined) throw gone(id)
          if (body.clientId === undefined) throw fieldError('body.clientId', 'is required for a new provider')
          if (body.discoveryUrl === undefined) throw fieldError('body.discoveryUrl', 'is required for a new provider')
        }
        const details = await changeProvider(tx, deps, caller, { id, change: body })
        if (Object.keys(details).length === 0) return
        await deps.audit.record(tx, context.actor, {
          action: 'provider.update',
          resource: 'identity_provider',
          resourceId: id,
          details,
        })
        await announce(tx, deps, caller.userId)
      })
      return shownProvider(await providerOf(deps, id), deps.publicUrl())
    }),
    route(api.deleteProvider, async ({ params }, context) => {
      const id = params.providerId
      await db.write(async (tx) => {
        const caller = await stillAllowed(deps.credentials, callerOf(context))
        const provider = await findProvider(tx.q, settings, id)
        if (provider === undefined || provider.createdAt === null) throw gone(id)
        await ensureMayEnd(tx, caller, provider)
        const { accounts, roles } = await endLinks(tx, id)
        await tx.q.deleteFrom('identityProvider').where('id', '=', id).execute()
        await ensureAdminLeft(tx)
        const details = { name: provider.name, accounts, roles }
        const entry = { action: 'provider.delete', resource: 'identity_provider', resourceId: id, details }
        await deps.audit.record(tx, context.actor, entry)
        await announce(tx, deps, caller.userId)
        tx.onCommit(() => deps.credentials.changed())
      })
      return null
    }),
    route(api.testProvider, async ({ params }, context) => {
      const provider = await providerOf(deps, params.providerId)
      const result = await testProvider(deps, provider)
      const { ok, step, error } = result
      const details = { ok, ...(step === undefined ? {} : { step }), ...(error === undefined ? {} : { error }) }
      const entry = { action: 'provider.test', resource: 'identity_provider', resourceId: provider.id, details }
      await db.write((tx) => deps.audit.record(tx, context.actor, entry))
      return result
    }),
  ]
}

/** A provider that people may sign in by now. */
export async function usableProvider(deps: Pick<SsoDeps, 'db' | 'settings'>, id: string): Promise<ProviderEntry> {
  const provider = await findProvider(deps.db.read, deps.settings, id)
  if (provider === undefined || !isConfigured(provider)) throw gone(id)
  if (!provider.enabled) throw new PanelError('PROVIDER_DISABLED', `${provider.name} is switched off`)
  return provider
}

/** Tells administrators that something about sign-in by providers has changed. */
export async function announce(tx: Tx, { bus }: Pick<SsoDeps, 'bus'>, updatedBy: string): Promise<void> {
  await bus.append(tx, { type: 'oidc_settings_updated', data: { updatedBy } })
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
