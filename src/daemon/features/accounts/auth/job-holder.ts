import type { Holder } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { readApiKey } from './credential-rows.ts'

/**
 * The rights that a user has now, within what the API key may do by which they have started something; `undefined` when the
 * account or the key is gone, switched off, expired or banned. A session may have ended since: it stood for its user.
 */
export async function holderOf(at: At, userId: string, apiKeyId: string | null): Promise<Holder | undefined> {
  if (apiKeyId !== null) {
    const entry = await readApiKey(at.q, apiKeyId)
    if (entry === undefined || !entry.enabled || entry.caller.userId !== userId) return undefined
    const { expiresAt } = entry.caller
    if ((expiresAt !== null && expiresAt <= at.now) || isBanned(entry.ban, at)) return undefined
    return entry.caller
  }
  const user = await at.q
    .selectFrom('user')
    .select(['banned', 'banExpires'])
    .where('id', '=', userId)
    .executeTakeFirst()
  if (user === undefined || isBanned(user.banned === 1 ? { expires: user.banExpires } : null, at)) return undefined
  return { userId, permissions: await rolePermissions(at.q, userId), scope: null }
}

function isBanned(ban: { readonly expires: string | null } | null, { now }: At): boolean {
  return ban !== null && (ban.expires === null || ban.expires > now)
}
