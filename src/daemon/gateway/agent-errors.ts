import { type ErrorCode, PanelError } from '../../shared/kernel/errors.ts'
import type { AgentError, AgentErrorCode } from '../../shared/protocol/agent-error.ts'

/** Which API code a failure on a node becomes; what is not listed is AGENT_ERROR. */
const CODES: Partial<Record<AgentErrorCode, ErrorCode>> = {
  PORT_IN_USE: 'PORT_IN_USE',
  SUSPENDED: 'SERVER_SUSPENDED',
  CONFLICT_STATE: 'CONFLICT',
  NO_SPACE: 'INSUFFICIENT_SPACE',
  TIMEOUT: 'AGENT_TIMEOUT',
  NOT_FOUND: 'FILE_NOT_FOUND',
  PATH_INVALID: 'FILE_PATH_INVALID',
  ETAG_MISMATCH: 'ETAG_MISMATCH',
  OFFSET_MISMATCH: 'CONFLICT',
  CHECKSUM: 'VALIDATION_ERROR',
  NO_INPUT: 'CONSOLE_NO_INPUT',
  DENIED: 'PERMISSION_DENIED',
  ARCHIVE_UNSUPPORTED: 'FILE_ARCHIVE_UNSUPPORTED',
  RCON_FAILED: 'CONSOLE_UNAVAILABLE',
  STORE_FAILED: 'BACKUP_STORE_FAILED',
}

/** The failure of a node as callers of the API see it; the node's own code stands in `meta.agentCode`. */
export function agentErrorToPanelError(error: AgentError): PanelError {
  const field = error.field === undefined ? {} : { agentField: error.field }
  const meta = { agentCode: error.code, ...field }
  return new PanelError(CODES[error.code] ?? 'AGENT_ERROR', error.message, { meta })
}

/** The node's own code of a failure that came from a node, else undefined. */
export function agentCodeOf(error: unknown): string | undefined {
  const code = error instanceof PanelError ? error.meta['agentCode'] : undefined
  return typeof code === 'string' ? code : undefined
}
