import { z } from 'zod'
import { AgentText } from '../kernel/agent-text.ts'

/** Codes of a failure on a node; `errors.ts` says which API code each becomes. */
export const AgentErrorCode = z.enum([
  'BAD_REQUEST', 'UNSUPPORTED', 'UNKNOWN_SERVER', 'STALE_GENERATION', 'SUSPENDED', 'CONFLICT_STATE', 'NOT_RUNNING',
  'PORT_IN_USE', 'ADDRESS_UNAVAILABLE', 'SPAWN_FAILED', 'EXITED_EARLY', 'INSTALL_FAILED', 'NO_SPACE', 'TIMEOUT', 'INTERRUPTED',
  'INTERNAL', 'NOT_FOUND', 'PATH_INVALID', 'ETAG_MISMATCH', 'OFFSET_MISMATCH', 'CHECKSUM', 'CANCELLED', 'NO_INPUT', 'RCON_FAILED', 'DENIED',
  'ARCHIVE_UNSUPPORTED', 'STORE_FAILED',
]) // biome-ignore format: a list
export type AgentErrorCode = z.infer<typeof AgentErrorCode>

/** A failure on a node: `message` is a sentence for people. A code of a newer agent counts as INTERNAL. */
export const AgentError = z.object({
  code: AgentErrorCode.catch('INTERNAL'),
  message: AgentText(2000),
  /** The field of the request that it is about, where the request has several of a kind. */
  field: AgentText(64).optional(),
})
export type AgentError = z.infer<typeof AgentError>
