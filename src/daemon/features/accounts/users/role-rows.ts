import { PermissionList } from '../../../access/role-permissions.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'

/** A role with the number of its members. */
export type ShownRole = NonNullable<Awaited<ReturnType<typeof findRole>>>

/** The role with this id. */
export async function findRole(q: Queries, id: string) {
  const row = await selectRoles(q).where('role.id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : shown(row)
}

/** One page of roles by name. */
export async function listRoleRows(q: Queries, { page, limit }: { page: number; limit: number }) {
  const total = await countRows(q, q.selectFrom('role'))
  const rows = await selectRoles(q).orderBy('name').limit(limit).offset(offsetOf({ page, limit })).execute()
  return { items: rows.map(shown), total }
}

/** The roles of a user by name. */
export async function rolesOfUser(q: Queries, userId: string) {
  const rows = await selectRoles(q)
    .where('role.id', 'in', (eb) => eb.selectFrom('userRole').select('roleId').where('userId', '=', userId))
    .orderBy('name')
    .execute()
  return rows.map(shown)
}

/** Members of a role by user name, at most `limit`. */
export async function membersOf(q: Queries, roleId: string, limit: number) {
  return q
    .selectFrom('userRole')
    .innerJoin('user', 'user.id', 'userRole.userId')
    .select(['user.id', 'user.email', 'user.username'])
    .where('userRole.roleId', '=', roleId)
    .orderBy('user.username')
    .limit(limit)
    .execute()
}

function selectRoles(q: Queries) {
  return q
    .selectFrom('role')
    .selectAll('role')
    .select((eb) =>
      eb
        .selectFrom('userRole')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .whereRef('userRole.roleId', '=', 'role.id')
        .as('userCount'),
    )
}

type RoleRow = Awaited<ReturnType<ReturnType<typeof selectRoles>['executeTakeFirstOrThrow']>>

function shown(row: RoleRow) {
  return {
    ...row,
    protected: row.protected === 1,
    permissions: parseJson(PermissionList, row.permissions),
    userCount: Number(row.userCount),
  }
}
