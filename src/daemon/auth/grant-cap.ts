import { PanelError } from '../../shared/errors.ts'
import { missingFrom } from '../../shared/permissions.ts'
import type { Caller } from '../core/caller.ts'
import type { Queries } from '../core/db.ts'
import { ownedNow } from './credential-rows.ts'
import { isOwnerPermission, scoped, withinScope } from './effective.ts'

/**
 * Refuses with PERMISSION_DENIED what the caller may not pass on: each permission must be part of his own effective set,
 * or be for a single server that he owns and that his key, if he calls by one, may use so.
 */
export async function ensureMayGrant(q: Queries, caller: Caller, permissions: Iterable<string>): Promise<void> {
  const missing = missingFrom(caller.permissions, permissions)
  const ownable = missing.filter((text) => {
    const part = scoped(text)
    return (
      part !== undefined && isOwnerPermission(part.permission) && withinScope(caller.scope, part.permission, part.id)
    )
  })
  const owned = new Set(await ownedNow(q, caller.userId, ownable))
  refuse(missing.filter((text) => !owned.has(text)))
}

/** Refuses with PERMISSION_DENIED a caller who has less than all that his user may, now or later. */
export function ensureMayGrantAll(caller: Caller): void {
  if (caller.scope !== null) refuse(['*'])
}

function refuse(missing: readonly string[]): void {
  if (missing.length === 0) return
  throw new PanelError('PERMISSION_DENIED', `You cannot give what you do not hold: ${missing.slice(0, 5).join(', ')}`, {
    meta: { missing },
  })
}
