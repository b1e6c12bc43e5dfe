import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { RoleId, UserId } from '../kernel/ids.ts'
import { isGrantable } from '../kernel/permissions.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { GrantList, Role } from './api-keys.ts'

const params = { roleId: RoleId }
const RoleName = OneLine.trim().min(1).max(100)
const Description = z.string().trim().max(500).nullish()

export const getRolePresets = defineEndpoint({
  id: 'roles.presets',
  tag: 'Roles',
  summary: 'List the sets of permissions that roles usually get',
  method: 'GET',
  path: '/api/roles/presets',
  access: { panel: 'role.read' },
  response: z.array(
    z.object({ key: z.string(), label: z.string(), description: z.string(), permissions: z.array(z.string()) }),
  ),
})

export const getRole = defineEndpoint({
  id: 'roles.get',
  tag: 'Roles',
  summary: 'Show a role with its members',
  method: 'GET',
  path: '/api/roles/:roleId',
  access: { panel: 'role.read' },
  params,
  /** `users`: the first 100; the list of accounts can be narrowed to a role. */
  response: Role.extend({
    protected: z.boolean(),
    users: z.array(z.object({ id: UserId, email: z.string(), username: z.string() })),
  }),
  errors: ['ROLE_NOT_FOUND'],
})

export const createRole = defineEndpoint({
  id: 'roles.create',
  tag: 'Roles',
  summary: 'Create a role; only permissions that you hold yourself can be in it',
  method: 'POST',
  path: '/api/roles',
  access: { panel: 'role.create' },
  body: z.object({ name: RoleName, description: Description, permissions: GrantList.default([]) }),
  response: Role,
  status: 201,
  errors: ['ROLE_NAME_TAKEN', 'PERMISSION_DENIED'],
  audit: { action: 'role.create' },
})

const roleEdit = {
  tag: 'Roles',
  access: { panel: 'role.update' },
  response: Role,
} as const

export const updateRole = defineEndpoint({
  ...roleEdit,
  id: 'roles.update',
  summary: 'Edit a role; before and after it must not hold anything that you do not hold',
  method: 'PUT',
  path: '/api/roles/:roleId',
  params,
  body: z.object({ name: RoleName.optional(), description: Description, permissions: GrantList.optional() }),
  errors: ['ROLE_NOT_FOUND', 'ROLE_NAME_TAKEN', 'ROLE_PROTECTED', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'role.update' },
})

export const deleteRole = defineEndpoint({
  id: 'roles.delete',
  tag: 'Roles',
  summary: 'Delete a role that nobody has',
  method: 'DELETE',
  path: '/api/roles/:roleId',
  access: { panel: 'role.delete' },
  params,
  response: NoData,
  errors: ['ROLE_NOT_FOUND', 'ROLE_IN_USE', 'ROLE_PROTECTED', 'PERMISSION_DENIED'],
  audit: { action: 'role.delete' },
})

export const addRolePermission = defineEndpoint({
  ...roleEdit,
  id: 'roles.permission_add',
  summary: 'Put a permission that you hold into a role',
  method: 'POST',
  path: '/api/roles/:roleId/permissions',
  params,
  body: z.object({ permission: z.string().max(200).refine(isGrantable, 'is not a permission of the catalogue') }),
  errors: ['ROLE_NOT_FOUND', 'ROLE_PROTECTED', 'CONFLICT', 'PERMISSION_DENIED'],
  audit: { action: 'role.permission_add' },
})

export const removeRolePermission = defineEndpoint({
  ...roleEdit,
  id: 'roles.permission_remove',
  summary: 'Take a permission out of a role',
  method: 'DELETE',
  path: '/api/roles/:roleId/permissions/:permission',
  params: {
    roleId: RoleId,
    permission: z.string().regex(/^(\*|[a-z]+\.[a-z_]+(:[\w*-]{1,64})?)$/, 'must be a permission'),
  },
  errors: ['ROLE_NOT_FOUND', 'ROLE_PROTECTED', 'NOT_FOUND', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'role.permission_remove' },
})

const membership = {
  tag: 'Roles',
  path: '/api/roles/:roleId/users/:userId',
  access: { panel: 'user.set_roles' },
  params: { roleId: RoleId, userId: UserId },
  response: NoData,
} as const

export const addRoleMember = defineEndpoint({
  ...membership,
  id: 'roles.member_add',
  summary: 'Give a user a role that holds nothing beyond what you hold',
  method: 'POST',
  errors: ['ROLE_NOT_FOUND', 'USER_NOT_FOUND', 'CONFLICT', 'PERMISSION_DENIED'],
  audit: { action: 'user.role_assign' },
})

export const removeRoleMember = defineEndpoint({
  ...membership,
  id: 'roles.member_remove',
  summary: 'Take a role from a user',
  method: 'DELETE',
  errors: ['ROLE_NOT_FOUND', 'USER_NOT_FOUND', 'NOT_FOUND', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'user.role_remove' },
})

export const getUserRoles = defineEndpoint({
  id: 'roles.of_user',
  tag: 'Roles',
  summary: 'Show the roles of a user and what they hold together',
  method: 'GET',
  path: '/api/roles/users/:userId/roles',
  access: { panel: 'user.read', orSelf: 'userId' },
  params: { userId: UserId },
  response: z.object({
    user: z.object({ id: UserId, email: z.string(), username: z.string() }),
    roles: z.array(Role.omit({ userCount: true })),
    permissions: z.array(z.string()),
  }),
  errors: ['USER_NOT_FOUND'],
})
