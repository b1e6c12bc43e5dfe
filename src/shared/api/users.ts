import { z } from 'zod'
import { defineEndpoint } from '../contract.ts'
import { RoleId, UserId } from '../ids.ts'
import { pageQuery, QueryBoolean } from '../page.ts'
import { IsoTime } from '../time.ts'
import { Email, NewPassword, Username } from './auth.ts'

/** An account as administrators see it (api.md §7.1). */
export const User = z.object({
  id: UserId,
  email: z.string(),
  username: z.string(),
  name: z.string(),
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  roles: z.array(z.object({ id: RoleId, name: z.string() })),
  banned: z.boolean(),
  emailVerified: z.boolean(),
  hasPassword: z.boolean(),
  lastSuccessfulLogin: IsoTime.nullable(),
  serverCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type User = z.infer<typeof User>

export const listUsers = defineEndpoint({
  id: 'users.list',
  tag: 'Admin',
  summary: 'List accounts, newest first',
  method: 'GET',
  path: '/api/admin/users',
  access: { panel: 'user.read' },
  query: pageQuery().extend({
    search: z.string().max(200).optional(),
    roleId: RoleId.optional(),
    banned: QueryBoolean.optional(),
  }),
  response: z.array(User),
  paged: true,
})

export const getUser = defineEndpoint({
  id: 'users.get',
  tag: 'Admin',
  summary: 'Show an account',
  method: 'GET',
  path: '/api/admin/users/:userId',
  access: { panel: 'user.read' },
  params: { userId: UserId },
  response: User.extend({ permissions: z.array(z.string()) }),
  errors: ['USER_NOT_FOUND'],
})

export const createUser = defineEndpoint({
  id: 'users.create',
  tag: 'Admin',
  summary: 'Create an account; giving roles needs user.set_roles, and only what you hold yourself can be given',
  method: 'POST',
  path: '/api/admin/users',
  access: { panel: 'user.create' },
  body: z.object({
    email: Email,
    username: Username,
    password: NewPassword,
    firstName: z.string().max(100).nullish(),
    lastName: z.string().max(100).nullish(),
    roleIds: z.array(RoleId).max(50).default([]),
  }),
  response: User,
  status: 201,
  errors: ['USER_EXISTS', 'ROLE_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'user.create' },
})
