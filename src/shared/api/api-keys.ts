import { z } from 'zod'
import { type Access, defineEndpoint, NoData } from '../kernel/contract.ts'
import { ApiKeyId, RoleId, UserId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { isGrantable } from '../kernel/permissions.ts'
import { IsoTime } from '../kernel/time.ts'

/** The guards of API keys. */
const ApiKeyRead: Access = { anyOf: ['apikey.manage', 'admin.read'] }
const ApiKeyManage: Access = { panel: 'apikey.manage' }

/** Permissions of the catalogue, also for single resources, each once. */
export const GrantList = z
  .array(z.string().max(200).refine(isGrantable, 'is not a permission of the catalogue'))
  .max(500)
  .transform((list) => [...new Set(list)])

/** A key for scripts and integrations. The secret is shown once, in the answer of the creation. */
export const ApiKey = z.object({
  id: ApiKeyId,
  name: z.string(),
  prefix: z.string(),
  /** The beginning of the key, to recognise it by. */
  start: z.string(),
  enabled: z.boolean(),
  expiresAt: IsoTime.nullable(),
  lastRequest: IsoTime.nullable(),
  requestCount: z.int(),
  rateLimitEnabled: z.boolean(),
  rateLimitMax: z.int(),
  rateLimitTimeWindow: z.int(),
  /** Whatever its owner may do at the time of a call. */
  allPermissions: z.boolean(),
  permissions: z.array(z.string()),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  userId: UserId,
  user: z.object({ id: UserId, username: z.string(), email: z.string() }),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type ApiKey = z.infer<typeof ApiKey>

const limits = {
  rateLimitMax: z.int().min(1).max(10_000),
  rateLimitTimeWindow: z.int().min(1000).max(3_600_000),
}

export const createApiKey = defineEndpoint({
  id: 'api_keys.create',
  tag: 'API Keys',
  summary: 'Create an API key; its secret is shown this once',
  method: 'POST',
  path: '/api/admin/api-keys',
  access: ApiKeyManage,
  body: z
    .object({
      name: z.string().trim().min(1).max(100),
      permissions: GrantList.default([]),
      allPermissions: z.boolean().default(false),
      /** Seconds from now, an hour to a year. */
      expiresIn: z.int().min(3600).max(31_536_000).optional(),
      expiresAt: z.iso.datetime().optional(),
      metadata: z.record(z.string().max(100), z.unknown()).optional(),
      rateLimitEnabled: z.boolean().default(true),
      rateLimitMax: limits.rateLimitMax.default(1200),
      rateLimitTimeWindow: limits.rateLimitTimeWindow.default(60_000),
    })
    .refine((body) => body.expiresIn === undefined || body.expiresAt === undefined, {
      path: ['expiresAt'],
      message: 'and expiresIn exclude each other',
    })
    .refine((body) => JSON.stringify(body.metadata ?? {}).length <= 4096, {
      path: ['metadata'],
      message: 'must be at most 4 KiB of JSON',
    }),
  response: ApiKey.extend({ key: z.string() }),
  status: 201,
  errors: ['PERMISSION_DENIED'],
  audit: { action: 'api_key.create', resource: 'apikey' },
})

export const listApiKeys = defineEndpoint({
  id: 'api_keys.list',
  tag: 'API Keys',
  summary: 'List API keys: all with admin.read, else your own',
  method: 'GET',
  path: '/api/admin/api-keys',
  access: ApiKeyRead,
  query: pageQuery().extend({
    search: z.string().max(200).optional(),
    enabled: QueryBoolean.optional(),
    mine: QueryBoolean.optional(),
  }),
  response: z.array(ApiKey),
  paged: true,
})

export const getPermissionsCatalog = defineEndpoint({
  id: 'api_keys.permissions_catalog',
  tag: 'API Keys',
  summary: 'List all permissions by category',
  method: 'GET',
  path: '/api/admin/api-keys/permissions-catalog',
  access: ApiKeyRead,
  response: z.array(
    z.object({
      id: z.string(),
      label: z.string(),
      description: z.string(),
      permissions: z.array(z.object({ value: z.string(), label: z.string() })),
    }),
  ),
})

export const getMyPermissions = defineEndpoint({
  id: 'api_keys.my_permissions',
  tag: 'API Keys',
  summary: 'List the permissions that this call has',
  method: 'GET',
  path: '/api/admin/api-keys/my-permissions',
  access: ApiKeyRead,
  response: z.array(z.string()),
})

const params = { keyId: ApiKeyId }

export const getApiKey = defineEndpoint({
  id: 'api_keys.get',
  tag: 'API Keys',
  summary: 'Show an API key',
  method: 'GET',
  path: '/api/admin/api-keys/:keyId',
  access: ApiKeyRead,
  params,
  response: ApiKey,
  errors: ['API_KEY_NOT_FOUND'],
})

export const updateApiKey = defineEndpoint({
  id: 'api_keys.update',
  tag: 'API Keys',
  summary: 'Edit an API key',
  method: 'PATCH',
  path: '/api/admin/api-keys/:keyId',
  access: ApiKeyManage,
  params,
  body: z.object({
    name: z.string().trim().min(1).max(100).optional(),
    enabled: z.boolean().optional(),
    permissions: GrantList.optional(),
    expiresAt: z.iso.datetime().nullish(),
    rateLimitMax: limits.rateLimitMax.optional(),
    rateLimitTimeWindow: limits.rateLimitTimeWindow.optional(),
  }),
  response: ApiKey,
  errors: ['API_KEY_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'api_key.update', resource: 'apikey' },
})

export const deleteApiKey = defineEndpoint({
  id: 'api_keys.delete',
  tag: 'API Keys',
  summary: 'Revoke an API key at once, on open streams too',
  method: 'DELETE',
  path: '/api/admin/api-keys/:keyId',
  access: ApiKeyManage,
  params,
  response: NoData,
  errors: ['API_KEY_NOT_FOUND', 'PERMISSION_DENIED'],
  audit: { action: 'api_key.delete', resource: 'apikey' },
})

export const getApiKeyUsage = defineEndpoint({
  id: 'api_keys.usage',
  tag: 'API Keys',
  summary: 'Show how much an API key is used',
  method: 'GET',
  path: '/api/admin/api-keys/:keyId/usage',
  access: ApiKeyRead,
  params,
  response: z.object({
    totalRequests: z.int(),
    remaining: z.int().nullable(),
    lastUsed: IsoTime.nullable(),
    rateLimit: z.object({ max: z.int(), windowMs: z.int() }),
    createdAt: IsoTime,
  }),
  errors: ['API_KEY_NOT_FOUND'],
})

/** A named set of permissions. */
export const Role = z.object({
  id: RoleId,
  name: z.string(),
  description: z.string().nullable(),
  permissions: z.array(z.string()),
  userCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Role = z.infer<typeof Role>

export const listRoles = defineEndpoint({
  id: 'roles.list',
  tag: 'Roles',
  summary: 'List roles by name',
  method: 'GET',
  path: '/api/roles',
  access: { panel: 'role.read' },
  query: pageQuery(),
  response: z.array(Role),
  paged: true,
  cached: true,
})

export const listAdminRoles = defineEndpoint({
  id: 'roles.list_admin',
  tag: 'Admin',
  summary: 'List roles by name, for the administration area',
  method: 'GET',
  path: '/api/admin/roles',
  access: { panel: 'role.read' },
  query: pageQuery(),
  response: z.array(Role),
  paged: true,
})
