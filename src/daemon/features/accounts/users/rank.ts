import { missingFrom } from '../../../../shared/kernel/permissions.ts'
import type { Holder } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { rightsOf } from '../auth/account-rights.ts'
import { refuseMissing } from '../auth/grant-cap.ts'

/** Refuses with PERMISSION_DENIED who would act on an account whose roles hold what the caller does not hold. */
export async function ensureNotAbove(at: At, caller: Holder, userId: string): Promise<void> {
  refuseMissing(missingFrom(caller.permissions, await rolePermissions(at.q, userId)))
}

/**
 * Refuses with PERMISSION_DENIED who does not hold all that the account can do, also on its servers and nodes: by its
 * password or its address they would get that.
 */
export async function ensureHoldsAllOf(at: At, caller: Holder, userId: string): Promise<void> {
  if (userId === caller.userId && caller.scope === null) return
  refuseMissing(missingFrom(caller.permissions, await rightsOf(at, userId)))
}
