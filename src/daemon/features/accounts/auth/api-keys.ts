import * as api from '../../../../shared/api/api-keys.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, missingFrom, PERMISSION_CATALOG } from '../../../../shared/kernel/permissions.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import type { Caller } from '../../../access/caller.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import { rightsOf } from './account-rights.ts'
import { createApiKeyRow, findApiKey, listApiKeyRows, type ShownKey } from './api-key-rows.ts'
import type { AccountDeps } from './deps.ts'
import { ensureMayGrant, ensureMayGrantAll, refuseMissing, stillAllowed } from './grant-cap.ts'

/** What the routes of API keys work with beside the rest; `usedNow` asks the limiter what a key has used of its window. */
export interface ApiKeyDeps extends AccountDeps {
  readonly usedNow: (keyId: string) => number
}

/** The routes of API keys. */
export function apiKeyRoutes(deps: ApiKeyDeps): Route[] {
  return [...readingRoutes(deps), ...writingRoutes(deps)]
}

function readingRoutes(deps: ApiKeyDeps): Route[] {
  return [
    route(api.listApiKeys, async ({ query }, context) => {
      const caller = callerOf(context)
      const ownerId = query.mine === true ? caller.userId : readableOwner(caller)
      const { items, total } = await listApiKeyRows(deps.db.read, { ...query, ownerId })
      return { items, total }
    }),
    route(api.getPermissionsCatalog, async () =>
      PERMISSION_CATALOG.map((group) => ({ ...group, permissions: [...group.permissions] })),
    ),
    route(api.getMyPermissions, async (_, context) => [...callerOf(context).permissions].sort()),
    route(api.getApiKey, async ({ params }, context) => readable(deps.db.read, callerOf(context), params.keyId)),
    route(api.getApiKeyUsage, async ({ params }, context) => {
      const key = await readable(deps.db.read, callerOf(context), params.keyId)
      return {
        totalRequests: key.requestCount,
        remaining: key.rateLimitEnabled ? Math.max(0, key.rateLimitMax - deps.usedNow(key.id)) : null,
        lastUsed: key.lastRequest,
        rateLimit: { max: key.rateLimitMax, windowMs: key.rateLimitTimeWindow },
        createdAt: key.createdAt,
      }
    }),
  ]
}

function writingRoutes(deps: ApiKeyDeps): Route[] {
  return [
    route(api.createApiKey, async ({ body }, context) => {
      const caller = callerOf(context)
      const expiresAt = expiryOf(body, deps.clock.nowMs())
      return deps.db.write(async (tx) => {
        const giver = await stillAllowed(deps.credentials, caller)
        if (body.allPermissions) ensureMayGrantAll(giver)
        else await ensureMayGrant(tx, giver, body.permissions)
        // A key without a limit passes those of its owner and of single endpoints as well.
        if (!body.rateLimitEnabled) refuseMissing(missingFrom(giver.permissions, ['admin.write']))
        return create(deps, tx, context, { body, expiresAt })
      })
    }),
    route(api.updateApiKey, async ({ params, body }, context) => {
      const caller = callerOf(context)
      return deps.db.write(async (tx) => {
        const before = await readable(tx.q, caller, params.keyId)
        ensureMayWrite(caller, before)
        return update(deps, tx, context, { before, body })
      })
    }),
    route(api.deleteApiKey, async ({ params }, context) => {
      const caller = callerOf(context)
      await deps.db.write(async (tx) => {
        const key = await readable(tx.q, caller, params.keyId)
        ensureMayWrite(caller, key)
        await tx.q.deleteFrom('apiKey').where('id', '=', key.id).execute()
        const entry = { action: 'api_key.delete', resource: 'apikey', resourceId: key.id, details: { name: key.name } }
        await deps.audit.record(tx, context.actor, entry)
        const data = { keyId: key.id, keyName: key.name, deletedBy: caller.userId }
        await deps.bus.append(tx, { type: 'api_key_deleted', data })
        tx.onCommit(() => deps.credentials.changed())
      })
      return null
    }),
  ]
}

async function create(
  deps: AccountDeps,
  tx: Tx,
  context: Context<typeof api.createApiKey>,
  { body, expiresAt }: { body: Input<typeof api.createApiKey>['body']; expiresAt: IsoTime | null },
) {
  const { userId } = callerOf(context)
  const { name, allPermissions, rateLimitEnabled, rateLimitMax, rateLimitTimeWindow } = body
  const made = await createApiKeyRow(tx, deps.clock, {
    userId,
    name,
    allPermissions,
    permissions: allPermissions ? [] : body.permissions,
    expiresAt,
    metadata: body.metadata ?? null,
    rateLimitEnabled,
    rateLimitMax,
    rateLimitTimeWindow,
  })
  const key = await readable(tx.q, callerOf(context), made.id)
  const { permissions } = key
  await deps.audit.record(tx, context.actor, {
    action: 'api_key.create',
    resource: 'apikey',
    resourceId: key.id,
    details: { name, allPermissions, permissions, expiresAt },
  })
  await deps.bus.append(tx, { type: 'api_key_created', data: { keyId: key.id, keyName: name, createdBy: userId } })
  return { ...key, key: made.token }
}

async function update(
  deps: AccountDeps,
  tx: Tx,
  context: Context<typeof api.updateApiKey>,
  { before, body }: { before: ShownKey; body: Input<typeof api.updateApiKey>['body'] },
): Promise<ShownKey> {
  const caller = callerOf(context)
  const after = { ...edited(before, body) }
  const giver = await stillAllowed(deps.credentials, caller)
  if (body.permissions !== undefined) {
    const had = before.allPermissions ? [] : before.permissions
    await ensureMayGrant(tx, giver, missingFrom(new Set(had), body.permissions))
  }
  if (revives(before, after)) await ensureMayRevive(tx, giver, { ...after, userId: before.userId })
  const changed = changes(before, after)
  if (changed === undefined) return before
  await tx.q
    .updateTable('apiKey')
    .set({
      name: after.name,
      enabled: after.enabled ? 1 : 0,
      allPermissions: after.allPermissions ? 1 : 0,
      permissions: JSON.stringify(after.permissions),
      expiresAt: after.expiresAt,
      rateLimitMax: after.rateLimitMax,
      rateLimitTimeWindow: after.rateLimitTimeWindow,
      updatedAt: tx.now,
    })
    .where('id', '=', before.id)
    .execute()
  const entry = { action: 'api_key.update', resource: 'apikey', resourceId: before.id, details: changed }
  await deps.audit.record(tx, context.actor, entry)
  const data = { keyId: before.id, keyName: after.name, updatedBy: caller.userId }
  await deps.bus.append(tx, { type: 'api_key_updated', data })
  tx.onCommit(() => deps.credentials.changed())
  return readable(tx.q, caller, before.id)
}

/** Whether the key works, or works for longer, because of the edit. */
function revives(before: Pick<ShownKey, 'enabled' | 'expiresAt'>, after: typeof before): boolean {
  if (after.enabled && !before.enabled) return true
  return before.expiresAt !== null && (after.expiresAt === null || after.expiresAt > before.expiresAt)
}

/**
 * Whoever brings a key back to life gives what it may do, so he must hold that. His own key is cut to what he holds anyway, unless
 * he calls by another one that may do less.
 */
async function ensureMayRevive(
  tx: Tx,
  giver: Caller,
  key: Pick<ShownKey, 'userId' | 'allPermissions' | 'permissions'>,
): Promise<void> {
  if (giver.userId === key.userId && giver.scope === null) return
  if (!key.allPermissions) return ensureMayGrant(tx, giver, key.permissions)
  ensureMayGrantAll(giver)
  refuseMissing(missingFrom(giver.permissions, await rightsOf(tx, key.userId)))
}

/** The fields that an edit can change, as they are after it. A list of permissions takes the place of "all". */
function edited(before: ShownKey, body: Input<typeof api.updateApiKey>['body']) {
  const expiresAt = body.expiresAt === undefined || body.expiresAt === null ? body.expiresAt : instant(body.expiresAt)
  return {
    name: body.name ?? before.name,
    enabled: body.enabled ?? before.enabled,
    allPermissions: body.permissions === undefined && before.allPermissions,
    permissions: body.permissions ?? before.permissions,
    expiresAt: expiresAt === undefined ? before.expiresAt : expiresAt,
    rateLimitMax: body.rateLimitMax ?? before.rateLimitMax,
    rateLimitTimeWindow: body.rateLimitTimeWindow ?? before.rateLimitTimeWindow,
  }
}

async function readable(q: Queries, caller: Caller, keyId: string): Promise<ShownKey> {
  const key = await findApiKey(q, keyId, readableOwner(caller))
  if (key === undefined) throw new PanelError('API_KEY_NOT_FOUND', `There is no API key ${keyId} that you can see`)
  return key
}

/** Whose keys the caller sees; `undefined`: everybody's. */
function readableOwner(caller: Caller): string | undefined {
  return grants(caller.permissions, 'admin.read') ? undefined : caller.userId
}

function ensureMayWrite(caller: Caller, key: ShownKey): void {
  if (key.userId === caller.userId || grants(caller.permissions, 'admin.write')) return
  throw new PanelError('PERMISSION_DENIED', 'The keys of others need the permission admin.write', {
    meta: { missing: ['admin.write'] },
  })
}

function expiryOf(body: Input<typeof api.createApiKey>['body'], nowMs: number): IsoTime | null {
  if (body.expiresIn !== undefined) return isoTime(nowMs + body.expiresIn * 1000)
  if (body.expiresAt === undefined) return null
  const expiresAt = instant(body.expiresAt)
  if (Date.parse(expiresAt) <= nowMs) throw fieldError('body.expiresAt', 'must be in the future')
  return expiresAt
}

function instant(text: string): IsoTime {
  return isoTime(Date.parse(text))
}
