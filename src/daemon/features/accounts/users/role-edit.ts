import * as api from '../../../../shared/api/roles.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import type { Caller } from '../../../access/caller.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import { type Context, callerOf, type Route, route } from '../../../http/route.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { ensureMayGrantForGood, stillAllowed } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { findRole, type ShownRole } from './role-rows.ts'

/** The routes that make, edit and delete roles. */
export function roleEditRoutes(deps: AccountDeps): Route[] {
  return [
    creation(deps),
    route(api.updateRole, ({ params, body }, context) =>
      editing(deps, context, params.roleId, 'role.update', () => body),
    ),
    deletion(deps),
    route(api.addRolePermission, ({ params, body }, context) =>
      editing(deps, context, params.roleId, 'role.permission_add', ({ permissions }) => {
        if (permissions.includes(body.permission)) context.fail('CONFLICT', `The role has ${body.permission} already`)
        return { permissions: [...permissions, body.permission] }
      }),
    ),
    route(api.removeRolePermission, ({ params }, context) =>
      editing(deps, context, params.roleId, 'role.permission_remove', ({ permissions }) => {
        if (!permissions.includes(params.permission)) context.fail('NOT_FOUND', `The role has no ${params.permission}`)
        return { permissions: permissions.filter((one) => one !== params.permission) }
      }),
    ),
  ]
}

function creation(deps: AccountDeps): Route {
  return route(api.createRole, ({ body }, context) =>
    deps.db.write(async (tx) => {
      const caller = await stillAllowed(deps.credentials, callerOf(context))
      await ensureMayGrantForGood(tx, caller, body.permissions)
      const id = newId('role', deps.clock)
      const { name, permissions } = body
      const description = body.description ?? null
      await tx.q
        .insertInto('role')
        .values({
          id,
          name,
          description,
          permissions: JSON.stringify(permissions),
          protected: 0,
          createdAt: tx.now,
          updatedAt: tx.now,
        })
        .execute()
        .catch(refuseTaken)
      const details = { name, description, permissions }
      await deps.audit.record(tx, context.actor, { action: 'role.create', resource: 'role', resourceId: id, details })
      await deps.bus.append(tx, {
        type: 'role_created',
        data: { roleId: id, roleName: name, createdBy: caller.userId },
      })
      return present(tx, id)
    }),
  )
}

function deletion(deps: AccountDeps): Route {
  return route(api.deleteRole, ({ params: { roleId } }, context) =>
    deps.db.write(async (tx) => {
      const caller = await stillAllowed(deps.credentials, callerOf(context))
      const role = await editable(tx, caller, roleId)
      if (role.userCount > 0) {
        context.fail('ROLE_IN_USE', `${role.userCount} users have this role; take it from them first`, {
          userCount: role.userCount,
        })
      }
      await tx.q.deleteFrom('role').where('id', '=', roleId).execute()
      const { name, permissions } = role
      const entry = { action: 'role.delete', resource: 'role', resourceId: roleId, details: { name, permissions } }
      await deps.audit.record(tx, context.actor, entry)
      await deps.bus.append(tx, { type: 'role_deleted', data: { roleId, roleName: name, deletedBy: caller.userId } })
      tx.onCommit(() => deps.credentials.changed())
      return null
    }),
  )
}

/** What the event says of an action that has a word of its own; of others it names the changed fields. */
const CHANGES: Readonly<Record<string, string>> = {
  'role.permission_add': 'permission_added',
  'role.permission_remove': 'permission_removed',
}

interface RoleEdit {
  readonly name?: string | undefined
  readonly description?: string | null | undefined
  readonly permissions?: readonly string[] | undefined
}

/** Changes a role: before and after it holds nothing that the caller does not hold. */
function editing(
  deps: AccountDeps,
  context: Pick<Context, 'actor' | 'caller'>,
  roleId: string,
  action: string,
  editOf: (role: ShownRole) => RoleEdit,
): Promise<ShownRole> {
  return deps.db.write(async (tx) => {
    const caller = await stillAllowed(deps.credentials, callerOf(context))
    const before = await editable(tx, caller, roleId)
    const edit = editOf(before)
    const after = {
      name: edit.name ?? before.name,
      description: edit.description === undefined ? before.description : edit.description,
      permissions: edit.permissions ?? before.permissions,
    }
    await ensureMayGrantForGood(tx, caller, after.permissions)
    const details = changes({ ...before }, after)
    if (details === undefined) return before
    await tx.q
      .updateTable('role')
      .set({ ...after, permissions: JSON.stringify(after.permissions), updatedAt: tx.now })
      .where('id', '=', roleId)
      .execute()
      .catch(refuseTaken)
    await ensureAdminLeft(tx)
    await deps.audit.record(tx, context.actor, { action, resource: 'role', resourceId: roleId, details })
    const change = CHANGES[action] ?? Object.keys(details).join(',')
    const data = { roleId, roleName: after.name, updatedBy: caller.userId, change }
    await deps.bus.append(tx, { type: 'role_updated', data })
    tx.onCommit(() => deps.credentials.changed())
    return present(tx, roleId)
  })
}

/** The role, unless it is built in or above the caller. */
async function editable(tx: Tx, caller: Caller, id: string): Promise<ShownRole> {
  const role = await present(tx, id)
  if (role.protected) throw new PanelError('ROLE_PROTECTED', `The role ${role.name} is built in and stays as it is`)
  await ensureMayGrantForGood(tx, caller, role.permissions)
  return role
}

async function present(tx: Tx, id: string): Promise<ShownRole> {
  const role = await findRole(tx.q, id)
  if (role === undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${id}`)
  return role
}

function refuseTaken(error: unknown): never {
  if (uniqueViolation(error) === undefined) throw error
  throw new PanelError('ROLE_NAME_TAKEN', 'There is a role of this name already')
}
