import { z } from 'zod'
import { ByteStream, defineEndpoint, NoData, StreamAnswer } from '../kernel/contract.ts'
import { ServerId } from '../kernel/ids.ts'

const params = { serverId: ServerId }
const FilePath = z.string().min(1).max(4096)
const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 of 64 hex digits')

/** Beyond the limit of uploads that the settings name. */
const ANY_SIZE = 2 ** 50

const nodeErrors = ['NODE_OFFLINE', 'AGENT_TIMEOUT', 'AGENT_ERROR', 'AGENT_VERSION', 'RATE_LIMITED'] as const
const fileErrors = [
  'SERVER_NOT_FOUND',
  'SERVER_SUSPENDED',
  'FILE_NOT_FOUND',
  'FILE_PATH_INVALID',
  ...nodeErrors,
] as const

/** A file of a server, once it has been written. */
export const WrittenFile = z.object({
  path: z.string(),
  size: z.int(),
  sha256: z.string(),
  etag: z.string(),
  modifiedAt: z.string(),
})
export type WrittenFile = z.infer<typeof WrittenFile>

/**
 * With `upload`, a SHA-256, it answers no bytes and the header Upload-Offset: how much of an interrupted upload of that file is
 * there.
 */
export const readFile = defineEndpoint({
  id: 'files.read',
  tag: 'Servers',
  summary: 'Read a file of a server, or a range of it',
  method: 'GET',
  path: '/api/servers/:serverId/files/content',
  access: { server: ['file.read'] },
  params,
  query: z.object({ path: FilePath, upload: Sha256.optional() }),
  answers: 'stream',
  response: StreamAnswer,
  errors: [...fileErrors, 'PERMISSION_DENIED', 'CONFLICT', 'ETAG_MISMATCH', 'RANGE_NOT_SATISFIABLE'],
})

/**
 * The file is replaced when all of it has arrived. With `sha256` it has to have that hash, and an interrupted upload can be gone on
 * with: `offset` is what the header Upload-Offset of HEAD with `upload` says, and the body is the rest. If-Match and
 * If-None-Match: * refuse to replace another file than the one that is meant.
 */
export const writeFile = defineEndpoint({
  id: 'files.write',
  tag: 'Servers',
  summary: 'Write a file of a server',
  method: 'PUT',
  path: '/api/servers/:serverId/files/content',
  access: { server: ['file.write'] },
  params,
  query: z.object({
    path: FilePath,
    sha256: Sha256.optional(),
    offset: z.coerce.number().int().min(0).max(ANY_SIZE).optional(),
  }),
  accepts: 'stream',
  body: ByteStream,
  bodyLimit: ANY_SIZE,
  response: WrittenFile,
  errors: [...fileErrors, 'PERMISSION_DENIED', 'CONFLICT', 'ETAG_MISMATCH', 'PAYLOAD_TOO_LARGE', 'INSUFFICIENT_SPACE'],
  audit: { action: 'server.file_write' },
})

export const downloadLogs = defineEndpoint({
  id: 'console.download',
  tag: 'Servers',
  summary: "Download a server's whole console log as text",
  method: 'GET',
  path: '/api/servers/:serverId/logs/download',
  access: { server: ['console.read'] },
  params,
  answers: 'stream',
  response: StreamAnswer,
  errors: ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED', ...nodeErrors],
})

const ticket = { ticket: z.string().max(200) }

/** Bytes from an agent, for whom its daemon has asked. */
export const deliverBulk = defineEndpoint({
  id: 'bulk.deliver',
  tag: 'Internal',
  summary: 'Deliver the bytes of a transfer',
  method: 'PUT',
  path: '/api/agent/bulk/:ticket',
  access: 'agent',
  params: ticket,
  accepts: 'stream',
  body: ByteStream,
  bodyLimit: ANY_SIZE,
  response: NoData,
  errors: ['NOT_FOUND', 'CONFLICT'],
  audit: { none: 'moves the bytes of a request that has its own record' },
})

/** Bytes for an agent. */
export const fetchBulk = defineEndpoint({
  id: 'bulk.fetch',
  tag: 'Internal',
  summary: 'Fetch the bytes of a transfer',
  method: 'GET',
  path: '/api/agent/bulk/:ticket',
  access: 'agent',
  params: ticket,
  answers: 'stream',
  response: StreamAnswer,
  errors: ['NOT_FOUND'],
})
