import * as api from '../../shared/api/api-keys.ts'
import { PermissionList } from '../auth/credential-rows.ts'
import type { Db, Queries } from '../core/db.ts'
import { parseJson } from '../core/json.ts'
import { countRows, offsetOf } from '../core/paging.ts'
import { type Route, route } from '../core/route.ts'

/** The routes of roles. */
export function roleRoutes(deps: { db: Db }): Route[] {
  return [
    route(api.listRoles, ({ query }) => listRoleRows(deps.db.read, query)),
    route(api.listAdminRoles, ({ query }) => listRoleRows(deps.db.read, query)),
  ]
}

async function listRoleRows(q: Queries, { page, limit }: { page: number; limit: number }) {
  const total = await countRows(q, q.selectFrom('role'))
  const rows = await q
    .selectFrom('role')
    .select(['id', 'name', 'description', 'permissions', 'createdAt', 'updatedAt'])
    .select((eb) =>
      eb
        .selectFrom('userRole')
        .select((inner) => inner.fn.countAll<number>().as('count'))
        .whereRef('userRole.roleId', '=', 'role.id')
        .as('userCount'),
    )
    .orderBy('name')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  const items = rows.map((row) => ({
    ...row,
    permissions: parseJson(PermissionList, row.permissions),
    userCount: Number(row.userCount),
  }))
  return { items, total }
}
