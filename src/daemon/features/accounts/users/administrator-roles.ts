import type { Tx } from '../../../db/db.ts'

/** The built-in roles, whose holders may do everything. */
export async function administratorRoles(tx: Tx): Promise<string[]> {
  const rows = await tx.q.selectFrom('role').select('id').where('protected', '=', 1).execute()
  return rows.map(({ id }) => id)
}
