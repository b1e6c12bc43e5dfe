import { z } from 'zod'
import { defineEndpoint, FileAnswer, NoData, Upload } from '../kernel/contract.ts'
import { UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { ApiKey } from './api-keys.ts'
import { Me, Username } from './auth.ts'

/** What users keep for their clients: flat, so that two clients can each change their own entries. */
export const Preferences = z.record(
  z.string().min(1).max(100),
  z.union([z.string().max(4096), z.number(), z.boolean()]),
)
export type Preferences = z.infer<typeof Preferences>

/** One's own account with everything that only its owner sees. */
export const Profile = Me.omit({ role: true, permissions: true }).extend({
  emailVerified: z.boolean(),
  twoFactorEnabled: z.boolean(),
  hasPassword: z.boolean(),
  lastSuccessfulLogin: IsoTime.nullable(),
  /** Failed sign-ins that still count, from all addresses. */
  failedLoginAttempts: z.int(),
  lastFailedLogin: IsoTime.nullable(),
  preferences: Preferences,
  /** At identity providers. */
  accounts: z.array(
    z.object({ id: z.string(), providerId: z.string(), accountId: z.string(), createdAt: IsoTime, updatedAt: IsoTime }),
  ),
})
export type Profile = z.infer<typeof Profile>

export const getProfile = defineEndpoint({
  id: 'profile.get',
  tag: 'Auth',
  summary: 'Show your account',
  method: 'GET',
  path: '/api/auth/profile',
  access: 'session',
  response: Profile,
  cached: true,
})

const PersonName = z.string().trim().max(100).nullable()

export const updateProfile = defineEndpoint({
  id: 'profile.update',
  tag: 'Auth',
  summary: 'Change your user name or your name',
  method: 'PATCH',
  path: '/api/auth/profile',
  access: 'session',
  body: z
    .object({ username: Username.optional(), firstName: PersonName.optional(), lastName: PersonName.optional() })
    .refine((body) => Object.values(body).some((value) => value !== undefined), 'must have at least one known field'),
  response: Me.pick({ id: true, username: true, firstName: true, lastName: true }),
  errors: ['USER_EXISTS'],
  audit: { action: 'user.update' },
})

/** All preferences of one person together take at most so many bytes of JSON. */
export const PREFERENCES_MAX_BYTES = 16_384

export const updatePreferences = defineEndpoint({
  id: 'profile.preferences',
  tag: 'Auth',
  summary: 'Set some of your preferences; null removes one, those that are not named stay',
  method: 'PATCH',
  path: '/api/auth/profile/preferences',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: z.record(z.string().min(1).max(100), z.union([z.string().max(4096), z.number(), z.boolean(), z.null()])),
  response: Preferences,
  audit: { action: 'user.preferences_update' },
})

/** The most that a picture may have, whatever the limit of uploads. */
export const AVATAR_MAX_BYTES = 2 * 1024 * 1024

export const setAvatar = defineEndpoint({
  id: 'profile.avatar_set',
  tag: 'Auth',
  summary: 'Set your picture: JPEG, PNG, GIF or WebP of 2 MiB at most',
  method: 'POST',
  path: '/api/auth/profile/avatar',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  accepts: 'multipart',
  body: Upload,
  bodyLimit: AVATAR_MAX_BYTES,
  /** Where it is read. */
  response: z.object({ image: z.string() }),
  errors: ['PAYLOAD_TOO_LARGE'],
  audit: { action: 'user.avatar_update' },
})

export const deleteAvatar = defineEndpoint({
  id: 'profile.avatar_delete',
  tag: 'Auth',
  summary: 'Remove your picture',
  method: 'DELETE',
  path: '/api/auth/profile/avatar',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  response: NoData,
  audit: { action: 'user.avatar_update' },
})

export const getAvatar = defineEndpoint({
  id: 'profile.avatar',
  tag: 'Auth',
  summary: 'Download the picture of an account',
  method: 'GET',
  path: '/api/users/:userId/avatar',
  access: 'session',
  params: { userId: UserId },
  response: FileAnswer,
  answers: 'file',
  errors: ['USER_NOT_FOUND', 'NOT_FOUND'],
})

/** What an account did itself, as its owner sees it. */
export const OwnAuditLog = z.object({
  id: z.string(),
  apiKeyId: z.string().nullable(),
  action: z.string(),
  resource: z.string(),
  resourceId: z.string().nullable(),
  details: z.record(z.string(), z.unknown()).nullable(),
  ipAddress: z.string().nullable(),
  userAgent: z.string().nullable(),
  requestId: z.string().nullable(),
  timestamp: IsoTime,
})
export type OwnAuditLog = z.infer<typeof OwnAuditLog>

export const listOwnAuditLogs = defineEndpoint({
  id: 'profile.audit_log',
  tag: 'Auth',
  summary: 'List what you did, newest first',
  method: 'GET',
  path: '/api/auth/profile/audit-log',
  access: 'session',
  query: pageQuery(200),
  response: z.array(OwnAuditLog),
  paged: true,
})

export const listOwnApiKeys = defineEndpoint({
  id: 'profile.api_keys',
  tag: 'Auth',
  summary: 'List your own API keys, newest first',
  method: 'GET',
  path: '/api/auth/profile/api-keys',
  access: 'session',
  query: pageQuery(),
  response: z.array(ApiKey),
  paged: true,
})

export const exportProfile = defineEndpoint({
  id: 'profile.export',
  tag: 'Auth',
  summary: 'Download everything that the panel has stored about you, as JSON',
  method: 'GET',
  path: '/api/auth/profile/export',
  access: 'session',
  response: FileAnswer,
  answers: 'file',
})

export const deleteAccount = defineEndpoint({
  id: 'profile.delete',
  tag: 'Auth',
  summary: 'Delete your account; it must own no servers',
  method: 'POST',
  path: '/api/auth/profile/delete',
  access: 'session',
  limit: { max: 5, minutes: 1 },
  body: z.object({ confirm: z.literal('DELETE'), currentPassword: z.string().min(1).max(1024) }),
  response: NoData,
  errors: ['INVALID_CREDENTIALS', 'ACCOUNT_LOCKED', 'USER_OWNS_SERVERS', 'LAST_ADMIN'],
  audit: { action: 'auth.account_delete', resource: 'user' },
})
