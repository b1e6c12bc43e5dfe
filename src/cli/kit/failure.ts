import type { FieldProblem } from '../../shared/kernel/errors.ts'

/** The failures that the command line itself finds, with their exit codes. Those of the API stand in shared/errors.ts. */
export const CLI_FAILURES = {
  USAGE: 2,
  CONFIRMATION_REQUIRED: 2,
  AMBIGUOUS_NAME: 2,
  FILE_UNREADABLE: 2,
  CREDENTIALS_EXPOSED: 2,
  INSECURE_HTTP: 2,
  PARTIAL: 3,
  NOT_SIGNED_IN: 4,
  NOT_FOUND: 6,
  CONTEXT_EXISTS: 7,
  INVALID_STATE: 7,
  REJECTED: 8,
  OPERATION_FAILED: 11,
  NODE_OFFLINE: 12,
  UNREACHABLE: 13,
  UNTRUSTED_LISTENER: 13,
  HOST_PRECONDITION: 14,
  NO_MATCH: 15,
  TIMEOUT: 124,
  INTERRUPTED: 130,
} as const

export type CliFailureCode = keyof typeof CLI_FAILURES

/** An expected failure of the command line: a sentence, an exit code, and where there is one the next step. */
export class CliFailure extends Error {
  override readonly name = 'CliFailure'
  readonly code: CliFailureCode
  readonly exit: number
  readonly hint: string | undefined
  readonly details: readonly FieldProblem[] | undefined

  constructor(
    code: CliFailureCode,
    message: string,
    extra: { hint?: string; details?: readonly FieldProblem[]; cause?: unknown } = {},
  ) {
    super(message, extra.cause === undefined ? undefined : { cause: extra.cause })
    this.code = code
    this.exit = CLI_FAILURES[code]
    this.hint = extra.hint
    this.details = extra.details
  }
}

/** A panel that cannot be spoken with; why stands in `cause`. */
export class NoConnection extends Error {
  override readonly name = 'NoConnection'
  readonly origin: string

  constructor(origin: string, cause: Error) {
    super(`no connection to ${origin}: ${cause.message}`, { cause })
    this.origin = origin
  }
}

/** A wrong command line: exit 2. */
export function usage(message: string, hint?: string): CliFailure {
  return new CliFailure('USAGE', message, hint === undefined ? {} : { hint })
}
