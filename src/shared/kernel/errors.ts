/** One row of {@link ERRORS}: the HTTP status of the API and the exit code of the command line. */
interface ErrorRow {
  readonly status: number
  readonly exit: number
}

const row = (status: number, exit: number): ErrorRow => ({ status, exit })

/**
 * Every error code that the API answers, with its HTTP status and the command line's exit code:
 * 4 not signed in, 5 forbidden, 6 not found, 7 conflict, 8 rejected input, 9 throttled, 11 failed, 12 node offline,
 * 13 daemon unreachable, 14 host lacks something. A code is added here and nowhere else.
 */
export const ERRORS = {
  /** No failure: the password was right and the second factor is still to come. */
  TWO_FACTOR_REQUIRED: row(202, 4),
  VALIDATION_ERROR: row(400, 8),
  FILE_PATH_INVALID: row(400, 8),
  FILE_ARCHIVE_UNSUPPORTED: row(400, 8),
  PLUGIN_CONFIG_INVALID: row(400, 8),
  PLUGIN_ERROR: row(400, 7),
  TOKEN_INVALID: row(400, 8),
  USER_SELF_ACTION: row(400, 8),
  UNAUTHENTICATED: row(401, 4),
  AUTH_EXPIRED: row(401, 4),
  INVALID_CREDENTIALS: row(401, 4),
  DEPLOYMENT_TOKEN_INVALID: row(401, 4),
  TWO_FACTOR_INVALID: row(401, 4),
  PERMISSION_DENIED: row(403, 5),
  ACCOUNT_BANNED: row(403, 5),
  EMAIL_NOT_VERIFIED: row(403, 5),
  FEATURE_DISABLED: row(403, 5),
  NODE_DISABLED: row(403, 5),
  CSRF_INVALID: row(403, 5),
  INVITE_WRONG_ACCOUNT: row(403, 5),
  DATABASE_DISABLED: row(403, 5),
  BACKUP_DISABLED: row(403, 5),
  SETUP_TOKEN_INVALID: row(403, 5),
  HOST_NOT_ALLOWED: row(403, 5),
  NOT_FOUND: row(404, 6),
  ADMIN_LOCKOUT_NOT_FOUND: row(404, 6),
  ACCESS_NOT_FOUND: row(404, 6),
  ADMIN_DATABASE_HOST_NOT_FOUND: row(404, 6),
  ADMIN_IP_POOL_NOT_FOUND: row(404, 6),
  ADMIN_SYSTEM_ERROR_NOT_FOUND: row(404, 6),
  ALERT_NOT_FOUND: row(404, 6),
  ALERT_RULE_NOT_FOUND: row(404, 6),
  API_KEY_NOT_FOUND: row(404, 6),
  ASSIGNMENT_NOT_FOUND: row(404, 6),
  ALLOCATION_NOT_FOUND: row(404, 6),
  BACKUP_NOT_FOUND: row(404, 6),
  BACKUP_POLICY_NOT_FOUND: row(404, 6),
  BACKUP_POLICY_RUN_NOT_FOUND: row(404, 6),
  BACKUP_STORE_NOT_FOUND: row(404, 6),
  DATABASE_NOT_FOUND: row(404, 6),
  FILE_NOT_FOUND: row(404, 6),
  INVITE_NOT_FOUND: row(404, 6),
  JOB_NOT_FOUND: row(404, 6),
  JOB_STEP_NOT_FOUND: row(404, 6),
  LOCATION_NOT_FOUND: row(404, 6),
  MIGRATION_NOT_FOUND: row(404, 6),
  MIGRATION_STEP_NOT_FOUND: row(404, 6),
  MIGRATION_TARGET_NODES_NOT_FOUND: row(404, 6),
  NEST_NOT_FOUND: row(404, 6),
  NODE_NOT_FOUND: row(404, 6),
  PROVIDER_NOT_FOUND: row(404, 6),
  PLUGIN_NOT_FOUND: row(404, 6),
  ROLE_NOT_FOUND: row(404, 6),
  SELF_BACKUP_NOT_FOUND: row(404, 6),
  SERVER_NOT_FOUND: row(404, 6),
  SFTP_SESSION_NOT_FOUND: row(404, 6),
  SFTP_TOKEN_NOT_FOUND: row(404, 6),
  SSH_KEY_NOT_FOUND: row(404, 6),
  TASK_NOT_FOUND: row(404, 6),
  TASK_RUN_NOT_FOUND: row(404, 6),
  TEMPLATE_NOT_FOUND: row(404, 6),
  USER_NOT_FOUND: row(404, 6),
  WEBHOOK_DELIVERY_NOT_FOUND: row(404, 6),
  WEBHOOK_NOT_FOUND: row(404, 6),
  REQUEST_TIMEOUT: row(408, 13),
  ACCESS_EXISTS: row(409, 7),
  ADMIN_DATABASE_HOST_IN_USE: row(409, 7),
  ADMIN_DATABASE_HOST_NAME_TAKEN: row(409, 7),
  ADMIN_IP_POOL_IN_USE: row(409, 7),
  ADMIN_IP_POOL_OVERLAP: row(409, 7),
  AGENT_KEY_EXISTS: row(409, 7),
  ALLOCATION_EXISTS: row(409, 7),
  ALLOCATION_IN_USE: row(409, 7),
  ASSIGNMENT_EXISTS: row(409, 7),
  BACKUP_STORE_IN_USE: row(409, 7),
  BACKUP_STORE_NAME_TAKEN: row(409, 7),
  CONFLICT: row(409, 7),
  CONSOLE_NO_INPUT: row(409, 7),
  DATABASE_LIMIT_REACHED: row(409, 7),
  DATABASE_NOT_MANAGED: row(409, 7),
  EULA_NOT_PENDING: row(409, 7),
  IDEMPOTENCY_KEY_REUSED: row(409, 7),
  INSUFFICIENT_RESOURCES: row(409, 7),
  INVITE_INACTIVE: row(409, 7),
  LAST_ADMIN: row(409, 7),
  LAST_SIGN_IN_METHOD: row(409, 7),
  LOCATION_IN_USE: row(409, 7),
  LOCATION_NAME_TAKEN: row(409, 7),
  NEST_NAME_TAKEN: row(409, 7),
  JOB_ENDED: row(409, 7),
  JOB_NOT_CONTROLLABLE: row(409, 7),
  JOB_STEP_NOT_FAILED: row(409, 7),
  JOB_STEP_NOT_RETRYABLE: row(409, 7),
  MIGRATION_IN_PROGRESS: row(409, 7),
  MIGRATION_INVALID_STATE: row(409, 7),
  MIGRATION_STEP_NOT_RETRYABLE: row(409, 7),
  MIGRATION_TARGET_NODES_OFFLINE: row(409, 12),
  NODE_IN_MAINTENANCE: row(409, 7),
  NODE_IN_USE: row(409, 7),
  NODE_NAME_TAKEN: row(409, 7),
  OWNER_IMMUTABLE: row(409, 7),
  PLUGIN_DISABLED: row(409, 7),
  PORT_IN_USE: row(409, 7),
  PROVIDER_DISABLED: row(409, 7),
  ROLE_IN_USE: row(409, 7),
  ROLE_NAME_TAKEN: row(409, 7),
  ROLE_PROTECTED: row(409, 7),
  SELF_BACKUP_NOT_READY: row(409, 7),
  SERVER_ALREADY_SUSPENDED: row(409, 7),
  SERVER_ARCHIVED: row(409, 7),
  SERVER_INVALID_STATE: row(409, 7),
  SERVER_MUST_BE_STOPPED: row(409, 7),
  BACKUP_LOCKED: row(409, 7),
  BACKUP_NOT_READY: row(409, 7),
  BACKUP_QUOTA_EXCEEDED: row(409, 7),
  SERVER_NAME_TAKEN: row(409, 7),
  SERVER_NOT_SUSPENDED: row(409, 7),
  SETTING_LOCKED: row(409, 7),
  SETUP_ALREADY_COMPLETE: row(409, 7),
  SETUP_REQUIRED: row(409, 7),
  SSH_KEY_EXISTS: row(409, 7),
  SSH_KEY_LIMIT_REACHED: row(409, 7),
  TASK_ALREADY_RUNNING: row(409, 7),
  TASK_LIMIT_REACHED: row(409, 7),
  TASK_NOT_RUNNING: row(409, 7),
  TEMPLATE_EDITED: row(409, 7),
  TEMPLATE_IN_USE: row(409, 7),
  TEMPLATE_NAME_TAKEN: row(409, 7),
  USER_EXISTS: row(409, 7),
  USER_OWNS_SERVERS: row(409, 7),
  INVITE_EXPIRED: row(410, 6),
  ETAG_MISMATCH: row(412, 7),
  FILE_TOO_LARGE: row(413, 8),
  PAYLOAD_TOO_LARGE: row(413, 8),
  RANGE_NOT_SATISFIABLE: row(416, 8),
  SERVER_SUSPENDED: row(423, 7),
  AGENT_VERSION: row(426, 12),
  ACCOUNT_LOCKED: row(429, 9),
  RATE_LIMITED: row(429, 9),
  INTERNAL_ERROR: row(500, 1),
  AGENT_ERROR: row(502, 12),
  BACKUP_STORE_FAILED: row(502, 11),
  CONSOLE_UNAVAILABLE: row(502, 11),
  DATABASE_PROVISION_FAILED: row(502, 11),
  MAIL_FAILED: row(502, 11),
  PROVIDER_FAILED: row(502, 11),
  PLUGIN_FAILED: row(502, 11),
  CREDENTIAL_ENCRYPTION_KEY_MISSING: row(503, 14),
  DATABASE_UNAVAILABLE: row(503, 13),
  MAIL_NOT_CONFIGURED: row(503, 14),
  NODE_OFFLINE: row(503, 12),
  PLUGIN_UNAVAILABLE: row(503, 11),
  SHUTTING_DOWN: row(503, 13),
  STREAM_LIMIT_REACHED: row(503, 9),
  AGENT_TIMEOUT: row(504, 12),
  PLUGIN_TIMEOUT: row(504, 11),
  INSUFFICIENT_SPACE: row(507, 7),
} as const satisfies Record<string, ErrorRow>

/** A code of {@link ERRORS}. Codes never change their meaning. */
export type ErrorCode = keyof typeof ERRORS

/** Whether `code` is one that this version knows; a newer daemon may answer others. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(ERRORS, code)
}

/** One refused field of a request: `field` is the path in the request (`body.name`), `message` a sentence part. */
export interface FieldProblem {
  readonly field: string
  readonly message: string
}

/**
 * An expected failure, part of the contract: `message` is a sentence that says what to do next when there is something
 * to do, `code` is stable, `meta` carries context (never secrets). Anything else that is thrown is a bug and is answered
 * as INTERNAL_ERROR.
 */
export class PanelError extends Error {
  override readonly name = 'PanelError'
  readonly code: ErrorCode
  readonly meta: Readonly<Record<string, unknown>>
  readonly details: readonly FieldProblem[] | undefined

  constructor(
    code: ErrorCode,
    message: string,
    extra: { meta?: Record<string, unknown>; details?: readonly FieldProblem[]; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause })
    this.code = code
    this.meta = extra.meta ?? {}
    this.details = extra.details
  }
}

/** The failure of a single field as a VALIDATION_ERROR; `field` is its path in the request, as in `body.locationId`. */
export function fieldError(field: string, message: string): PanelError {
  return new PanelError('VALIDATION_ERROR', `The request is not valid: ${field} ${message}`, {
    details: [{ field, message }],
  })
}
