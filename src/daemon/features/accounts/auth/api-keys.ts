import * as api from '../../../../shared/api/api-keys.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, missingFrom } from '../../../../shared/kernel/permissions.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { changes } from '../../../access/audit.ts'
import { accountOf, operationsOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { Context } from '../../../http/route.ts'
import { callerOf } from '../../../http/route.ts'
import { rightsOf } from './account-rights.ts'
import { createApiKeyRow, findApiKey, listApiKeyRows, type ShownKey } from './api-key-rows.ts'
import type { AccountDeps } from './deps.ts'
import { ensureMayGrant, ensureMayGrantAll, holderNow, refuseMissing } from './grant-cap.ts'

/** What the routes of API keys work with beside the rest; `usedNow` asks the limiter what a key has used of its window. */
export interface ApiKeyDeps extends AccountDeps {
  readonly usedNow: (keyId: string) => number
}

/** One page of the API keys that the caller may see. */
export async function listApiKeys(
  deps: ApiKeyDeps,
  { query }: Input<typeof api.listApiKeys>,
  context: Context<typeof api.listApiKeys>,
) {
  const caller = callerOf(context)
  const ownerId = query.mine === true ? caller.userId : readableOwner(caller)
  const { items, total } = await listApiKeyRows(deps.db.read, { ...query, ownerId })
  return { items, total }
}

/** What a key has used of its limit. */
export async function getApiKeyUsage(
  deps: ApiKeyDeps,
  { params }: Input<typeof api.getApiKeyUsage>,
  context: Context<typeof api.getApiKeyUsage>,
) {
  const key = await readable(deps.db.read, callerOf(context), params.keyId)
  return {
    totalRequests: key.requestCount,
    remaining: key.rateLimitEnabled ? Math.max(0, key.rateLimitMax - deps.usedNow(key.id)) : null,
    lastUsed: key.lastRequest,
    rateLimit: { max: key.rateLimitMax, windowMs: key.rateLimitTimeWindow },
    createdAt: key.createdAt,
  }
}

const operation = operationsOver<ApiKeyDeps>()

export const createApiKey = operation(api.createApiKey, async (work, { body }) => {
  const { tx, deps } = work
  const userId = accountOf(work)
  const giver = await holderNow(work)
  const expiresAt = expiryOf(body, deps.clock.nowMs())
  if (body.allPermissions) ensureMayGrantAll(giver)
  else await ensureMayGrant(tx, giver, body.permissions)
  // A key without a limit passes those of its owner and of single endpoints as well.
  if (!body.rateLimitEnabled) refuseMissing(missingFrom(giver.permissions, ['admin.write']))
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
  const key = await readable(tx.q, work.holder, made.id)
  const { permissions } = key
  return {
    answer: { ...key, key: made.token },
    audit: { resourceId: key.id, details: { name, allPermissions, permissions, expiresAt } },
    events: [{ type: 'api_key_created', data: { keyId: key.id, keyName: name, createdBy: userId } }],
  }
})

export const updateApiKey = operation(api.updateApiKey, async (work, { params: { keyId }, body }) => {
  const { tx, deps, holder, userId: updatedBy } = work
  const before = await writable(tx.q, holder, keyId)
  const after = { ...edited(before, body) }
  const giver = await holderNow(work)
  if (body.permissions !== undefined) {
    const had = before.allPermissions ? [] : before.permissions
    await ensureMayGrant(tx, giver, missingFrom(new Set(had), body.permissions))
  }
  if (revives(before, after)) await ensureMayRevive(tx, giver, { ...after, userId: before.userId })
  const details = changes(before, after)
  if (details === undefined) return { answer: before }
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
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: await readable(tx.q, holder, before.id),
    audit: { resourceId: before.id, details },
    events: [{ type: 'api_key_updated', data: { keyId: before.id, keyName: after.name, updatedBy } }],
  }
})

export const deleteApiKey = operation(api.deleteApiKey, async (work, { params: { keyId } }) => {
  const { tx, deps, holder, userId: deletedBy } = work
  const { id, name } = await writable(tx.q, holder, keyId)
  await tx.q.deleteFrom('apiKey').where('id', '=', id).execute()
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: null,
    audit: { resourceId: id, details: { name } },
    events: [{ type: 'api_key_deleted', data: { keyId: id, keyName: name, deletedBy } }],
  }
})

/** Whether the key works, or works for longer, because of the edit. */
function revives(before: Pick<ShownKey, 'enabled' | 'expiresAt'>, after: typeof before): boolean {
  if (after.enabled && !before.enabled) return true
  return before.expiresAt !== null && (after.expiresAt === null || after.expiresAt > before.expiresAt)
}

/**
 * Whoever brings a key back to life gives what it may do, so they must hold that. Their own key is cut to what they hold anyway,
 * unless they call by another one that may do less.
 */
async function ensureMayRevive(
  tx: Tx,
  giver: Holder,
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

/** A key that the caller may see; fails with API_KEY_NOT_FOUND. */
export async function readable(q: Queries, holder: Holder, keyId: string): Promise<ShownKey> {
  const key = await findApiKey(q, keyId, readableOwner(holder))
  if (key === undefined) throw new PanelError('API_KEY_NOT_FOUND', `There is no API key ${keyId} that you can see`)
  return key
}

/** Whose keys the holder sees; `undefined`: everybody's. */
function readableOwner(holder: Holder): string | undefined {
  return grants(holder.permissions, 'admin.read') ? undefined : holder.userId
}

async function writable(q: Queries, holder: Holder, keyId: string): Promise<ShownKey> {
  const key = await readable(q, holder, keyId)
  if (key.userId === holder.userId || grants(holder.permissions, 'admin.write')) return key
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
