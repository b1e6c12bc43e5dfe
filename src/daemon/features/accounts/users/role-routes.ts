import { listAdminRoles, listRoles } from '../../../../shared/api/api-keys.ts'
import * as api from '../../../../shared/api/roles.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { ROLE_PRESETS } from '../../../../shared/kernel/permission-presets.ts'
import { rolePermissions } from '../../../access/role-permissions.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { addRoleMember, removeRoleMember } from './member-operations.ts'
import * as operations from './role-operations.ts'
import { findRole, listRoleRows, membersOf, rolesOfUser } from './role-rows.ts'

const SHOWN_MEMBERS = 100

/** The routes of roles. */
export function roleRoutes(deps: AccountDeps): Route[] {
  const { db } = deps
  return [
    cachedRoute(listRoles, ({ query }, { at }) => listRoleRows(at.q, query)),
    route(listAdminRoles, ({ query }) => listRoleRows(db.read, query)),
    route(api.getRolePresets, async () =>
      ROLE_PRESETS.map((preset) => ({ ...preset, permissions: [...preset.permissions] })),
    ),
    route(api.getRole, async ({ params }) => {
      const role = await findRole(db.read, params.roleId)
      if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${params.roleId}`)
      return { ...role, users: await membersOf(db.read, role.id, SHOWN_MEMBERS) }
    }),
    route(api.getUserRoles, async ({ params: { userId } }, context) => {
      const user = await db.read
        .selectFrom('user')
        .select(['id', 'email', 'username'])
        .where('id', '=', userId)
        .executeTakeFirst()
      if (user === undefined) return context.fail('USER_NOT_FOUND', `There is no account ${userId}`)
      const permissions = [...(await rolePermissions(db.read, userId))].sort()
      return { user, roles: await rolesOfUser(db.read, userId), permissions }
    }),
    operate(operations.createRole, deps),
    operate(operations.updateRole, deps),
    operate(operations.deleteRole, deps),
    operate(operations.addRolePermission, deps),
    operate(operations.removeRolePermission, deps),
    operate(addRoleMember, deps),
    operate(removeRoleMember, deps),
  ]
}
