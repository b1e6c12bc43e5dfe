import { ASSIGNEE_PERMISSIONS, OWNER_PERMISSIONS } from '../../../../shared/kernel/permissions.ts'
import { type At, heldAssignments } from '../../../access/relations.ts'
import { PermissionList, rolePermissions } from '../../../access/role-permissions.ts'
import { parseJson } from '../../../db/json.ts'

/**
 * All that the account can do, by its roles, its grants, its servers and its nodes, without saying on which: what
 * whoever gets into it would get.
 */
export async function rightsOf(at: At, userId: string): Promise<Set<string>> {
  const rights = await rolePermissions(at.q, userId)
  const grants = await at.q.selectFrom('serverAccess').select('permissions').where('userId', '=', userId).execute()
  for (const row of grants) for (const name of parseJson(PermissionList, row.permissions)) rights.add(name)
  const server = await at.q.selectFrom('server').select('id').where('ownerId', '=', userId).executeTakeFirst()
  const assignments = await heldAssignments(at, userId)
  if (server !== undefined || assignments.length > 0) for (const name of OWNER_PERMISSIONS) rights.add(name)
  if (assignments.length > 0) for (const name of ASSIGNEE_PERMISSIONS) rights.add(name)
  return rights
}
