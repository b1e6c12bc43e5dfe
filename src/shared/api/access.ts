import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { FilePaths, ShownFilePaths } from '../kernel/file-paths.ts'
import { InviteId, ServerId, UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { OWNER_PERMISSIONS } from '../kernel/permissions.ts'
import { IsoTime } from '../kernel/time.ts'
import { Email, LoginResult, NewPassword, Username } from './auth.ts'
import { Server } from './servers.ts'

/** What a member of a server may do there: at least one permission, each once. */
export const ServerPermissions = z
  .array(z.enum(OWNER_PERMISSIONS))
  .min(1)
  .max(100)
  .transform((list) => [...new Set(list)])

/** The secret of an invitation as it stands in its link. */
export const InviteToken = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be the token of an invitation')

/** What a user who is not its owner may do with a server. */
export const ServerAccess = z.object({
  id: z.string(),
  userId: UserId,
  serverId: ServerId,
  permissions: z.array(z.string()),
  /** Which files the member is held to; `null`: to none. */
  filePaths: ShownFilePaths.nullable(),
  expiresAt: IsoTime.nullable(),
  user: z.object({ id: UserId, email: z.string(), username: z.string() }),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type ServerAccess = z.infer<typeof ServerAccess>

/** An invitation to a server; its token only in the answer of its creation, when no mail has taken it. */
export const ServerInvite = z.object({
  id: InviteId,
  serverId: ServerId,
  email: z.string(),
  permissions: z.array(z.string()),
  filePaths: ShownFilePaths.nullable(),
  invitedByUserId: UserId,
  createdAt: IsoTime,
  expiresAt: IsoTime,
  acceptedAt: IsoTime.nullable(),
  cancelledAt: IsoTime.nullable(),
})
export type ServerInvite = z.infer<typeof ServerInvite>

const params = { serverId: ServerId }

export const listServerAccess = defineEndpoint({
  id: 'access.list',
  tag: 'Servers',
  summary: 'List the members of a server, who is not its owner',
  method: 'GET',
  path: '/api/servers/:serverId/permissions',
  access: { server: ['server.read'] },
  params,
  query: pageQuery(),
  response: z.array(ServerAccess),
  paged: true,
  errors: ['SERVER_NOT_FOUND'],
})

const Preset = z.array(z.string())

export const getServerPresets = defineEndpoint({
  id: 'access.presets',
  tag: 'Servers',
  summary: 'List the sets of permissions that members of a server usually get',
  method: 'GET',
  path: '/api/servers/permission-presets',
  access: 'session',
  response: z.object({ readOnly: Preset, power: Preset, full: Preset }),
})

export const setServerAccess = defineEndpoint({
  id: 'access.set',
  tag: 'Servers',
  summary: 'Give a user permissions on a server, in place of those they had; only what you hold there can be given',
  method: 'POST',
  path: '/api/servers/:serverId/access',
  access: { server: ['server.users'] },
  params,
  body: z.object({
    targetUserId: UserId,
    permissions: ServerPermissions,
    /** Which files it reaches; `null`: all of them. Without the field it stays as it was. */
    filePaths: FilePaths.nullish(),
    /** When it ends; it cannot outlast what you hold yourself. */
    expiresAt: z.iso.datetime().nullish(),
  }),
  response: ServerAccess,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'USER_NOT_FOUND', 'OWNER_IMMUTABLE', 'PERMISSION_DENIED'],
  audit: { action: 'server.access_update' },
})

export const removeServerAccess = defineEndpoint({
  id: 'access.remove',
  tag: 'Servers',
  summary: 'Revoke the permissions of a user on a server; everybody may give up their own',
  method: 'DELETE',
  path: '/api/servers/:serverId/access/:targetUserId',
  access: { server: ['server.users'], orSelf: 'targetUserId' },
  params: { serverId: ServerId, targetUserId: UserId },
  response: NoData,
  errors: ['SERVER_NOT_FOUND', 'ACCESS_NOT_FOUND', 'OWNER_IMMUTABLE', 'PERMISSION_DENIED'],
  audit: { action: 'server.access_remove' },
})

export const listServerInvites = defineEndpoint({
  id: 'invites.list',
  tag: 'Servers',
  summary: 'List the open invitations to a server, newest first',
  method: 'GET',
  path: '/api/servers/:serverId/invites',
  access: { server: ['server.users'] },
  params,
  query: pageQuery(),
  response: z.array(ServerInvite),
  paged: true,
  errors: ['SERVER_NOT_FOUND'],
})

export const createServerInvite = defineEndpoint({
  id: 'invites.create',
  tag: 'Servers',
  summary: 'Invite somebody to a server by mail; only what you hold there can be given',
  method: 'POST',
  path: '/api/servers/:serverId/invites',
  access: { server: ['server.users'] },
  params,
  body: z.object({
    email: Email,
    permissions: ServerPermissions,
    /** Which files it reaches; by default all of them. */
    filePaths: FilePaths.nullish(),
    /** Seconds until the invitation ends, an hour to 30 days. */
    expiresIn: z.int().min(3600).max(2_592_000).default(604_800),
  }),
  response: ServerInvite.extend({ mailed: z.boolean(), token: z.string().nullable() }),
  status: 201,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'ACCESS_EXISTS', 'PERMISSION_DENIED'],
  audit: { action: 'server.invite' },
})

export const cancelServerInvite = defineEndpoint({
  id: 'invites.cancel',
  tag: 'Servers',
  summary: 'Cancel an invitation to a server',
  method: 'DELETE',
  path: '/api/servers/:serverId/invites/:inviteId',
  access: { server: ['server.users'] },
  params: { serverId: ServerId, inviteId: InviteId },
  response: NoData,
  errors: ['SERVER_NOT_FOUND', 'INVITE_NOT_FOUND'],
  audit: { action: 'server.invite_cancel' },
})

export const getServerInvite = defineEndpoint({
  id: 'invites.get',
  tag: 'Servers',
  summary: 'Show what an invitation is to, by its token',
  method: 'GET',
  path: '/api/servers/invites/:token',
  access: 'public',
  limit: { max: 20, minutes: 1 },
  params: { token: InviteToken },
  response: z.object({
    email: z.string(),
    serverName: z.string(),
    permissions: z.array(z.string()),
    expiresAt: IsoTime,
  }),
  errors: ['INVITE_NOT_FOUND', 'INVITE_INACTIVE', 'INVITE_EXPIRED'],
})

export const acceptServerInvite = defineEndpoint({
  id: 'invites.accept',
  tag: 'Servers',
  summary: 'Accept an invitation to a server with the account that it was sent to',
  method: 'POST',
  path: '/api/servers/invites/accept',
  access: 'session',
  body: z.object({ token: InviteToken }),
  response: z.object({ serverId: ServerId }),
  errors: [
    'PERMISSION_DENIED',
    'INVITE_NOT_FOUND',
    'INVITE_INACTIVE',
    'INVITE_EXPIRED',
    'INVITE_WRONG_ACCOUNT',
    'ACCESS_EXISTS',
  ],
  audit: { action: 'server.invite_accept' },
})

export const registerByInvite = defineEndpoint({
  id: 'invites.register',
  tag: 'Servers',
  summary: 'Accept an invitation to a server with a new account, and sign in',
  method: 'POST',
  path: '/api/servers/invites/register',
  access: 'public',
  limit: { max: 10, minutes: 1 },
  body: z.object({ token: InviteToken, username: Username, password: NewPassword }),
  response: LoginResult,
  status: 201,
  errors: ['INVITE_NOT_FOUND', 'INVITE_INACTIVE', 'INVITE_EXPIRED', 'USER_EXISTS'],
  audit: { action: 'server.invite_accept' },
})

export const transferOwnership = defineEndpoint({
  id: 'servers.transfer_ownership',
  tag: 'Servers',
  summary: 'Give a server to another owner; for its owner, and for admin.write with all rights on it',
  method: 'POST',
  path: '/api/servers/:serverId/transfer-ownership',
  access: { server: ['server.transfer'] },
  params,
  body: z.object({ newOwnerId: UserId }),
  response: Server,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', 'USER_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'server.transfer_ownership' },
})
