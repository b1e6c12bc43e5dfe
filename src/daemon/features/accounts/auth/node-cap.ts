import { ASSIGNEE_PERMISSIONS, missingFrom, OWNER_PERMISSIONS } from '../../../../shared/kernel/permissions.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Holder } from '../../../access/permit.ts'
import { type At, heldAssignments } from '../../../access/relations.ts'
import { refuseMissing } from './grant-cap.ts'
import { refuseLonger } from './server-cap.ts'

/** What an assignment of a node passes on. */
export const PASSED_ON = [...OWNER_PERMISSIONS, ...ASSIGNEE_PERMISSIONS]

/**
 * Refuses with PERMISSION_DENIED who passes on a node (`null`: every node) without holding all that an assignment of it
 * gives, also on servers to come: they hold it panel-wide, or by an assignment of their own that lasts as long.
 */
export async function ensureMayAssign(
  at: At,
  caller: Holder,
  { nodeId, expiresAt }: { readonly nodeId: string | null; readonly expiresAt: IsoTime | null },
): Promise<void> {
  const missing = missingFrom(caller.permissions, PASSED_ON)
  if (missing.length === 0) return
  if (caller.scope !== null) refuseMissing(missingFrom(caller.scope, PASSED_ON))
  const own = await heldAssignments(at, caller.userId, nodeId === null ? [] : [nodeId])
  if (own.length === 0) refuseMissing(missing)
  const sources = own.map((one) => ({ ...one, kind: 'assignment' as const, permissions: PASSED_ON }))
  refuseLonger(sources, missing, expiresAt)
}

/** The present assignments of these roles: whoever gets such a role gets them too. */
export async function assignmentsOfRoles(at: At, roleIds: readonly string[]) {
  if (roleIds.length === 0) return []
  return at.q
    .selectFrom('nodeAssignment')
    .select(['roleId', 'nodeId', 'expiresAt'])
    .where('roleId', 'in', [...roleIds])
    .where((eb) => eb.or([eb('expiresAt', 'is', null), eb('expiresAt', '>', at.now)]))
    .execute()
}
