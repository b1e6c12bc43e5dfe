import { z } from 'zod'
import { defineExactEndpoint, NoData } from '../kernel/contract.ts'
import { NodeId, ServerId, SftpSessionId, UserId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** How long tokens may live: what is offered, and the bounds; milliseconds. */
export const SFTP_TTL = {
  min: MINUTE,
  max: 365 * DAY,
  default: 5 * MINUTE,
  options: [
    { label: '5 minutes', value: 5 * MINUTE },
    { label: '15 minutes', value: 15 * MINUTE },
    { label: '30 minutes', value: 30 * MINUTE },
    { label: '1 hour', value: HOUR },
    { label: '6 hours', value: 6 * HOUR },
    { label: '24 hours', value: DAY },
    { label: '7 days', value: 7 * DAY },
    { label: '30 days', value: 30 * DAY },
    { label: '90 days', value: 90 * DAY },
    { label: '365 days', value: 365 * DAY },
  ],
} as const

const Ttl = z.int().min(SFTP_TTL.min).max(SFTP_TTL.max)
const ofServer = z.object({ serverId: ServerId })
/** The server is named outside of the path, so its rights are asked for by the operation. */
const serverErrors = ['SERVER_NOT_FOUND', 'PERMISSION_DENIED'] as const

export const sftpInfo = defineExactEndpoint({
  id: 'sftp.info',
  tag: 'Servers',
  summary: 'Show how the files and the console of a server are reached over SSH, with a fresh token as password',
  method: 'GET',
  path: '/api/sftp/connection-info',
  access: 'session',
  query: ofServer.extend({
    ttl: z.coerce.number().pipe(Ttl).default(SFTP_TTL.default),
    /** `false` makes no token: `sftpPassword` and `expiresAt` are `null`. */
    token: QueryBoolean.default(true),
  }),
  response: z.object({
    enabled: z.boolean(),
    /** Why it is not. */
    problem: z.string().nullable(),
    host: z.string(),
    port: z.int(),
    username: z.string(),
    /** Of the node's host key: `SHA256:…`. */
    fingerprint: z.string().nullable(),
    sftpPassword: z.string().nullable(),
    /** Milliseconds since the epoch. */
    expiresAt: z.int().nullable(),
    ttlMs: z.int(),
    ttlOptions: z.array(z.object({ label: z.string(), value: z.int() })),
  }),
  errors: [...serverErrors, 'SERVER_SUSPENDED'],
  audit: { action: 'sftp.token_create', resource: 'server' },
})

export const rotateSftpToken = defineExactEndpoint({
  id: 'sftp.rotate',
  tag: 'Servers',
  summary: 'Replace your SFTP tokens of a server by a new one; sessions that came in by them end',
  method: 'POST',
  path: '/api/sftp/rotate-token',
  access: 'session',
  body: ofServer.extend({ ttlMs: Ttl.default(SFTP_TTL.default) }),
  response: z.object({ sftpPassword: z.string(), expiresAt: z.int(), ttlMs: z.int() }),
  errors: [...serverErrors, 'SERVER_SUSPENDED'],
  audit: { action: 'sftp.token_rotate', resource: 'server' },
})

/** A token; `token` itself is shown once, by the request that makes it. */
export const SftpToken = z.object({
  userId: UserId,
  email: z.string(),
  username: z.string().nullable(),
  expiresAt: z.int(),
  ttlMs: z.int(),
  createdAt: IsoTime,
  lastUsedAt: IsoTime.nullable(),
  token: z.string().nullable(),
  isSelf: z.boolean(),
})
export type SftpToken = z.infer<typeof SftpToken>

export const listSftpTokens = defineExactEndpoint({
  id: 'sftp.tokens',
  tag: 'Servers',
  summary: 'List the SFTP tokens of a server: all with server.users, else your own',
  method: 'GET',
  path: '/api/sftp/tokens',
  access: 'session',
  query: ofServer,
  response: z.array(SftpToken),
  errors: serverErrors,
})

export const revokeUserSftpTokens = defineExactEndpoint({
  id: 'sftp.revoke_user',
  tag: 'Servers',
  summary: "Revoke a user's SFTP tokens of a server",
  method: 'DELETE',
  path: '/api/sftp/tokens/:tokenUserId',
  access: 'session',
  params: { tokenUserId: UserId },
  query: ofServer,
  response: NoData,
  errors: [...serverErrors, 'SFTP_TOKEN_NOT_FOUND'],
  audit: { action: 'sftp.token_revoke', resource: 'server' },
})

export const revokeSftpTokens = defineExactEndpoint({
  id: 'sftp.revoke',
  tag: 'Servers',
  summary: 'Revoke all SFTP tokens of a server',
  method: 'DELETE',
  path: '/api/sftp/tokens',
  access: 'session',
  query: ofServer,
  response: z.object({ revoked: z.int() }),
  errors: serverErrors,
  audit: { action: 'sftp.token_revoke_all', resource: 'server' },
})

/** A session that is open now. */
export const SftpSession = z.object({
  id: SftpSessionId,
  userId: UserId,
  username: z.string(),
  nodeId: NodeId,
  method: z.enum(['password', 'token', 'key']),
  readOnly: z.boolean(),
  ipAddress: z.string(),
  client: z.string().nullable(),
  startedAt: IsoTime,
  isSelf: z.boolean(),
})
export type SftpSession = z.infer<typeof SftpSession>

export const listSftpSessions = defineExactEndpoint({
  id: 'sftp.sessions',
  tag: 'Servers',
  summary: 'List the open SSH sessions of a server: all with server.users, else your own',
  method: 'GET',
  path: '/api/sftp/sessions',
  access: 'session',
  query: pageQuery().extend({ serverId: ServerId }),
  paged: true,
  response: z.array(SftpSession),
  errors: serverErrors,
})

export const endSftpSession = defineExactEndpoint({
  id: 'sftp.end_session',
  tag: 'Servers',
  summary: 'End an SSH session',
  method: 'DELETE',
  path: '/api/sftp/sessions/:sftpSessionId',
  access: 'session',
  params: { sftpSessionId: SftpSessionId },
  response: NoData,
  errors: ['PERMISSION_DENIED', 'SFTP_SESSION_NOT_FOUND'],
  audit: { action: 'sftp.session_end', resource: 'server' },
})
