import { PanelError } from '../../../../shared/kernel/errors.ts'
import { missingFrom } from '../../../../shared/kernel/permissions.ts'
import type { Caller, Credentials } from '../../../access/caller.ts'
import type { WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { type At, heldByRelation, isRelational, scoped } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { intersection, withinScope } from './effective.ts'

/**
 * Refuses with PERMISSION_DENIED what the caller may not pass on: each permission must be part of their own effective set,
 * or be for a single server or node where they hold it beside their roles and their key, if they call by one, reaches.
 */
export async function ensureMayGrant(at: At, caller: Holder, permissions: Iterable<string>): Promise<void> {
  const missing = missingFrom(caller.permissions, permissions)
  const relational = missing.filter((text) => {
    const part = scoped(text)
    return part !== undefined && isRelational(part.permission) && withinScope(caller.scope, part.permission, part.id)
  })
  const held = new Set(await heldByRelation(at, caller.userId, relational))
  refuseMissing(missing.filter((text) => !held.has(text)))
}

/**
 * The same for what lasts, such as the permissions of a role: only what the caller holds by their roles counts, because what
 * they hold on single servers beside them may end.
 */
export async function ensureMayGrantForGood(at: At, caller: Holder, permissions: Iterable<string>): Promise<void> {
  refuseMissing(missingFrom(await heldForGood(at, caller), permissions))
}

/** What the caller holds by their roles, within what their key reaches if they call by one. */
export async function heldForGood(at: At, caller: Holder): Promise<ReadonlySet<string>> {
  // The panel by itself is no account, and has no roles.
  if (caller.userId === '') return caller.permissions
  const byRole = await rolePermissions(at.q, caller.userId)
  return caller.scope === null ? byRole : intersection(caller.scope, byRole)
}

/** Refuses with PERMISSION_DENIED a caller who has less than all that their user may, now or later. */
export function ensureMayGrantAll(caller: Holder): void {
  if (caller.scope !== null) refuseMissing(['*'])
}

/** Refuses with PERMISSION_DENIED and the list, unless it is empty. */
export function refuseMissing(missing: readonly string[]): void {
  if (missing.length === 0) return
  throw new PanelError('PERMISSION_DENIED', `You cannot give what you do not hold: ${missing.slice(0, 5).join(', ')}`, {
    meta: { missing: [...missing] },
  })
}

/**
 * The caller as of now, inside the write: roles may have been taken from them since the request was admitted. A
 * revocation that is committed later ends what they pass on with their own rights, or shows it in the audit log.
 */
export async function stillAllowed(credentials: Credentials, caller: Caller): Promise<Caller> {
  const current = await credentials.recheck(caller)
  if (typeof current !== 'string') return current
  throw new PanelError('UNAUTHENTICATED', 'The credential is no longer valid')
}

/** The same of an operation; the panel by itself is always allowed. */
export async function holderNow({
  deps,
  caller,
  holder,
}: WorkOver<{ readonly credentials: Credentials }>): Promise<Holder> {
  return caller === undefined ? holder : stillAllowed(deps.credentials, caller)
}
