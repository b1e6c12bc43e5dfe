import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { ApiKeyId, NodeId, ServerId, UserId } from '../kernel/ids.ts'
import { PERMISSIONS } from '../kernel/permissions.ts'
import { IsoTime } from '../kernel/time.ts'

/** One reason why an account has a permission. */
export const PermissionSource = z.object({
  kind: z.enum(['role', 'owner', 'grant', 'assignment']),
  /** The id of the role, grant or assignment; of an owner that of the server. */
  id: z.string(),
  /** The role's name, where one is the reason or the way to the assignment. */
  roleName: z.string().nullable(),
  /** The permission as that source has it: `*`, `server.read`, `server.read:ID`. */
  as: z.string(),
  expiresAt: IsoTime.nullable(),
})

/** A permission that an account has, and why. */
export const EffectivePermission = z.object({
  permission: z.string(),
  /** It has it, and the key, if one is looked through, lets it through. */
  allowed: z.boolean(),
  sources: z.array(PermissionSource),
  /** The API key that withholds it. */
  cutBy: z.object({ id: z.string(), name: z.string() }).nullable(),
})
export type EffectivePermission = z.infer<typeof EffectivePermission>

export const getEffectivePermissions = defineEndpoint({
  id: 'users.effective_permissions',
  tag: 'Admin',
  summary: 'Show what an account may do and why: by which role, grant, assignment or ownership',
  method: 'GET',
  path: '/api/admin/users/:userId/effective-permissions',
  access: { panel: 'user.read', orSelf: 'userId' },
  params: { userId: UserId },
  query: z.object({
    /** On this server; without it panel-wide. */
    serverId: ServerId.optional(),
    nodeId: NodeId.optional(),
    /** Only this one, also when the account does not have it. */
    permission: z.enum(PERMISSIONS).optional(),
    /** Through this key of the account; your own calls by key are shown through that key. */
    keyId: ApiKeyId.optional(),
  }),
  response: z.object({
    user: z.object({ id: UserId, username: z.string() }),
    serverId: ServerId.nullable(),
    nodeId: NodeId.nullable(),
    key: z.object({ id: ApiKeyId, name: z.string(), permissions: z.array(z.string()).nullable() }).nullable(),
    permissions: z.array(EffectivePermission),
  }),
  errors: ['USER_NOT_FOUND', 'SERVER_NOT_FOUND', 'NODE_NOT_FOUND', 'API_KEY_NOT_FOUND'],
})
