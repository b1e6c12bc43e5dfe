import * as api from '../../../../shared/api/roles.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { type Done, operationsOver, type WorkOver } from '../../../access/operation.ts'
import type { Holder } from '../../../access/permit.ts'
import { type Tx, uniqueViolation } from '../../../db/db.ts'
import type { AccountDeps } from '../auth/deps.ts'
import { ensureMayGrantForGood, holderNow } from '../auth/grant-cap.ts'
import { ensureAdminLeft } from '../auth/last-admin.ts'
import { findRole, type ShownRole } from './role-rows.ts'

const operation = operationsOver<AccountDeps>()

export const createRole = operation(api.createRole, async (work, { body }) => {
  const { tx, deps, userId: createdBy } = work
  const holder = await holderNow(work)
  await ensureMayGrantForGood(tx, holder, body.permissions)
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
  return {
    answer: await present(tx, id),
    audit: { resourceId: id, details: { name, description, permissions } },
    events: [{ type: 'role_created', data: { roleId: id, roleName: name, createdBy } }],
  }
})

export const updateRole = operation(api.updateRole, (work, { params: { roleId }, body }) =>
  changeRole(work, { roleId, editOf: () => body }),
)

export const deleteRole = operation(api.deleteRole, async (work, { params: { roleId } }) => {
  const { tx, deps, userId: deletedBy, fail } = work
  const holder = await holderNow(work)
  const { name, permissions, userCount } = await editable(tx, holder, roleId)
  if (userCount > 0) {
    fail('ROLE_IN_USE', `${userCount} users have this role; take it from them first`, { userCount })
  }
  await tx.q.deleteFrom('role').where('id', '=', roleId).execute()
  tx.onCommit(() => deps.credentials.changed())
  return {
    answer: null,
    audit: { resourceId: roleId, details: { name, permissions } },
    events: [{ type: 'role_deleted', data: { roleId, roleName: name, deletedBy } }],
  }
})

export const addRolePermission = operation(
  api.addRolePermission,
  (work, { params: { roleId }, body: { permission } }) =>
    changeRole(work, {
      roleId,
      change: 'permission_added',
      editOf: ({ permissions }) => {
        if (permissions.includes(permission)) work.fail('CONFLICT', `The role has ${permission} already`)
        return { permissions: [...permissions, permission] }
      },
    }),
)

export const removeRolePermission = operation(api.removeRolePermission, (work, { params: { roleId, permission } }) =>
  changeRole(work, {
    roleId,
    change: 'permission_removed',
    editOf: ({ permissions }) => {
      if (!permissions.includes(permission)) work.fail('NOT_FOUND', `The role has no ${permission}`)
      return { permissions: permissions.filter((one) => one !== permission) }
    },
  }),
)

interface RoleEdit {
  readonly roleId: string
  /** What the event says; without it the changed fields. */
  readonly change?: string
  readonly editOf: (role: ShownRole) => {
    readonly name?: string | undefined
    readonly description?: string | null | undefined
    readonly permissions?: readonly string[] | undefined
  }
}

/** Changes a role: before and after it holds nothing that the principal does not hold. */
async function changeRole(
  work: WorkOver<AccountDeps>,
  { roleId, change, editOf }: RoleEdit,
): Promise<Done & { answer: ShownRole }> {
  const { tx, deps, userId: updatedBy } = work
  const holder = await holderNow(work)
  const before = await editable(tx, holder, roleId)
  const edit = editOf(before)
  const after = {
    name: edit.name ?? before.name,
    description: edit.description === undefined ? before.description : edit.description,
    permissions: edit.permissions ?? before.permissions,
  }
  await ensureMayGrantForGood(tx, holder, after.permissions)
  const details = changes({ ...before }, after)
  if (details === undefined) return { answer: before }
  await tx.q
    .updateTable('role')
    .set({ ...after, permissions: JSON.stringify(after.permissions), updatedAt: tx.now })
    .where('id', '=', roleId)
    .execute()
    .catch(refuseTaken)
  await ensureAdminLeft(tx)
  tx.onCommit(() => deps.credentials.changed())
  const data = { roleId, roleName: after.name, updatedBy, change: change ?? Object.keys(details).join(',') }
  return {
    answer: await present(tx, roleId),
    audit: { resourceId: roleId, details },
    events: [{ type: 'role_updated', data }],
  }
}

/** The role, unless it is built in or above the holder. */
async function editable(tx: Tx, holder: Holder, id: string): Promise<ShownRole> {
  const role = await present(tx, id)
  if (role.protected) throw new PanelError('ROLE_PROTECTED', `The role ${role.name} is built in and stays as it is`)
  await ensureMayGrantForGood(tx, holder, role.permissions)
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
