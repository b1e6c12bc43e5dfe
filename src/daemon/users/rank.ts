import { missingFrom, NODE_VISIBILITY, OWNER_PERMISSIONS } from '../../shared/permissions.ts'
import { PermissionList, rolePermissions } from '../auth/credential-rows.ts'
import { refuseMissing } from '../auth/grant-cap.ts'
import { parseJson } from '../core/json.ts'
import type { Holder } from '../core/permit.ts'
import { type At, heldAssignments } from '../core/relations.ts'

/** Refuses with PERMISSION_DENIED who would act on an account whose roles hold what he does not hold. */
export async function ensureNotAbove(at: At, caller: Holder, userId: string): Promise<void> {
  refuseMissing(missingFrom(caller.permissions, await rolePermissions(at.q, userId)))
}

/**
 * Refuses with PERMISSION_DENIED who does not hold all that the account can do, also on its servers and nodes: by its
 * password or its address he would get that.
 */
export async function ensureHoldsAllOf(at: At, caller: Holder, userId: string): Promise<void> {
  if (userId === caller.userId && caller.scope === null) return
  const wanted = await rolePermissions(at.q, userId)
  const grants = await at.q.selectFrom('serverAccess').select('permissions').where('userId', '=', userId).execute()
  for (const row of grants) for (const name of parseJson(PermissionList, row.permissions)) wanted.add(name)
  const server = await at.q.selectFrom('server').select('id').where('ownerId', '=', userId).executeTakeFirst()
  const assignments = await heldAssignments(at, userId)
  if (server !== undefined || assignments.length > 0) for (const name of OWNER_PERMISSIONS) wanted.add(name)
  if (assignments.length > 0) for (const name of NODE_VISIBILITY) wanted.add(name)
  refuseMissing(missingFrom(caller.permissions, wanted))
}
