import { z } from 'zod'
import type { Queries } from '../db/db.ts'
import { parseJson } from '../db/json.ts'

/** A list of permissions in a JSON column. */
export const PermissionList = z.array(z.string())

/** The user's live panel-wide permissions: the union of their roles. */
export async function rolePermissions(q: Queries, userId: string): Promise<Set<string>> {
  const rows = await q
    .selectFrom('userRole')
    .innerJoin('role', 'role.id', 'userRole.roleId')
    .select('role.permissions')
    .where('userRole.userId', '=', userId)
    .execute()
  return new Set(rows.flatMap((row) => parseJson(PermissionList, row.permissions)))
}
