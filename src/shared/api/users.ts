import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { RoleId, ServerId, UserId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { SERVER_PRESETS } from '../kernel/permission-presets.ts'
import { IsoTime } from '../kernel/time.ts'
import { InviteToken, ServerPermissions } from './access.ts'
import { Email, LoginResult, NewPassword, Username } from './auth.ts'

/** An account as administrators see it. */
export const User = z.object({
  id: UserId,
  email: z.string(),
  username: z.string(),
  name: z.string(),
  firstName: z.string().nullable(),
  lastName: z.string().nullable(),
  roles: z.array(z.object({ id: RoleId, name: z.string() })),
  banned: z.boolean(),
  banReason: z.string().nullable(),
  banExpires: IsoTime.nullable(),
  /** Until when sign-ins from some address are refused. */
  lockedUntil: IsoTime.nullable(),
  emailVerified: z.boolean(),
  hasPassword: z.boolean(),
  twoFactorEnabled: z.boolean(),
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

const names = {
  firstName: z.string().trim().max(100).nullish(),
  lastName: z.string().trim().max(100).nullish(),
}

/** What an account gets: roles, and grants on servers. Only what you hold yourself can be given. */
const rights = {
  roleIds: z.array(RoleId).max(50).default([]),
  serverIds: z.array(ServerId).max(100).default([]),
  serverPermissions: ServerPermissions.default([...SERVER_PRESETS.readOnly]),
}

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
    ...names,
    ...rights,
    /** Only who may do everything can say so; it is then the default. Others have a mail confirm the address. */
    emailVerified: z.boolean().optional(),
  }),
  response: User,
  status: 201,
  errors: ['USER_EXISTS', 'ROLE_NOT_FOUND', 'SERVER_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'user.create' },
})

/** How an invitation goes out: by mail, or with the token in this one answer. */
export const Invitation = z.object({
  expiresAt: IsoTime,
  mailed: z.boolean(),
  /** The one-time token, when no mail has taken it. */
  token: z.string().nullable(),
})
export type Invitation = z.infer<typeof Invitation>

export const inviteUser = defineEndpoint({
  id: 'users.invite',
  tag: 'Admin',
  summary: 'Create an account without a password and send its owner a link to choose one',
  method: 'POST',
  path: '/api/admin/users/invite',
  access: { panel: 'user.create' },
  body: z.object({
    email: Email,
    /** Without it the invited person chooses. */
    username: Username.optional(),
    ...names,
    ...rights,
    /** Seconds until the link ends, an hour to 30 days. */
    expiresIn: z.int().min(3600).max(2_592_000).default(604_800),
  }),
  response: User.extend({ invite: Invitation }),
  status: 201,
  errors: ['USER_EXISTS', 'ROLE_NOT_FOUND', 'SERVER_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'user.invite' },
})

export const acceptUserInvite = defineEndpoint({
  id: 'auth.invite_accept',
  tag: 'Auth',
  summary: 'Accept the invitation to an account: choose a password and sign in',
  method: 'POST',
  path: '/api/auth/invites/accept',
  access: 'public',
  limit: { max: 10, minutes: 1 },
  body: z.object({ token: InviteToken, password: NewPassword, username: Username.optional() }),
  response: LoginResult,
  errors: ['INVITE_NOT_FOUND', 'INVITE_EXPIRED', 'ACCOUNT_BANNED', 'USER_EXISTS'],
  audit: { action: 'user.invite_accept' },
})

const params = { userId: UserId }

export const updateUser = defineEndpoint({
  id: 'users.update',
  tag: 'Admin',
  summary: 'Edit an account; a new password ends its sessions, roles need user.set_roles in addition',
  method: 'PUT',
  path: '/api/admin/users/:userId',
  access: { panel: 'user.update' },
  params,
  /** A new password or address needs all rights of the account, a confirmed address (`emailVerified`) all rights; `roleIds` and `serverIds` replace what it had. */
  body: z.object({
    email: Email.optional(),
    username: Username.optional(),
    password: NewPassword.optional(),
    ...names,
    emailVerified: z.boolean().optional(),
    roleIds: z.array(RoleId).max(50).optional(),
    serverIds: z.array(ServerId).max(100).optional(),
    serverPermissions: ServerPermissions.optional(),
  }),
  response: User,
  errors: ['USER_NOT_FOUND', 'USER_EXISTS', 'ROLE_NOT_FOUND', 'SERVER_NOT_FOUND', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'user.update' },
})

export const getUserServers = defineEndpoint({
  id: 'users.servers',
  tag: 'Admin',
  summary: 'Show the servers of an account',
  method: 'GET',
  path: '/api/admin/users/:userId/servers',
  access: { panel: 'user.read' },
  params,
  /** The first 1,000 of each. */
  response: z.object({
    /** Granted to it. */
    serverIds: z.array(ServerId),
    ownedServerIds: z.array(ServerId),
  }),
  errors: ['USER_NOT_FOUND'],
})

/** What becomes of the servers of a deleted account: they go to `transferToUserId`, or with `force` to the caller. */
const deletion = {
  transferToUserId: UserId.optional(),
}

const userDeletion = {
  tag: 'Admin',
  access: { panel: 'user.delete' },
  params,
  response: NoData,
  errors: ['USER_NOT_FOUND', 'USER_SELF_ACTION', 'USER_OWNS_SERVERS', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'user.delete' },
} as const

export const deleteUser = defineEndpoint({
  ...userDeletion,
  id: 'users.delete',
  summary: 'Delete an account with its sessions, keys and grants; its servers go to another one',
  method: 'POST',
  path: '/api/admin/users/:userId/delete',
  body: z.object({ force: z.boolean().default(false), ...deletion }).prefault({}),
})

export const removeUser = defineEndpoint({
  ...userDeletion,
  id: 'users.remove',
  summary: 'Delete an account (the same as POST …/delete)',
  method: 'DELETE',
  path: '/api/admin/users/:userId',
  query: z.object({ force: QueryBoolean.default(false), ...deletion }),
})

export const banUser = defineEndpoint({
  id: 'users.ban',
  tag: 'Admin',
  summary: 'Ban an account: its sessions end, its API keys are switched off',
  method: 'POST',
  path: '/api/admin/users/:userId/ban',
  access: { panel: 'user.ban' },
  params,
  body: z.object({ reason: z.string().trim().max(500).nullish(), expiresAt: z.iso.datetime().nullish() }).prefault({}),
  response: User,
  errors: ['USER_NOT_FOUND', 'USER_SELF_ACTION', 'LAST_ADMIN', 'PERMISSION_DENIED'],
  audit: { action: 'user.ban' },
})

export const unbanUser = defineEndpoint({
  id: 'users.unban',
  tag: 'Admin',
  summary: 'Lift the ban of an account',
  method: 'POST',
  path: '/api/admin/users/:userId/unban',
  access: { panel: 'user.unban' },
  params,
  response: User,
  errors: ['USER_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'user.unban' },
})

export const unlockUser = defineEndpoint({
  id: 'users.unlock',
  tag: 'Admin',
  summary: 'Lift the lockouts of an account and forget its failed sign-ins',
  method: 'POST',
  path: '/api/admin/users/:userId/unlock',
  access: { panel: 'user.update' },
  params,
  response: NoData,
  errors: ['USER_NOT_FOUND'],
  audit: { action: 'auth_lockout.delete', resource: 'user' },
})
