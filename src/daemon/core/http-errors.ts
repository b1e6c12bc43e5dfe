import type { FastifyReply } from 'fastify'
import type { z } from 'zod'
import { ERRORS, type FieldProblem, PanelError } from '../../shared/errors.ts'
import { mustBe } from '../../shared/refusal-words.ts'

/** Parses one part of a request; every refused field is named as `<part>.<path>`. */
export function parsePart<T extends z.ZodType>(
  part: 'params' | 'query' | 'body',
  schema: T,
  raw: unknown,
): z.output<T> {
  const parsed = schema.safeParse(raw, { error: mustBe })
  if (parsed.success) return parsed.data
  const details: FieldProblem[] = parsed.error.issues.map((issue) => ({
    field: [part, ...issue.path.map(String)].join('.'),
    message: issue.message,
  }))
  const [first] = details
  throw new PanelError(
    'VALIDATION_ERROR',
    `The request is not valid: ${first?.field ?? part} ${first?.message ?? ''}`.trim(),
    {
      details,
    },
  )
}

/** What the framework's own refusals (bad JSON, too large, unknown media type) mean in our codes; anything else is a bug. */
export function toPanelError(error: unknown): PanelError {
  if (error instanceof PanelError) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return new PanelError('PAYLOAD_TOO_LARGE', 'The body is larger than this endpoint takes', { cause: error })
  }
  // A SyntaxError without a status comes from a handler and is a bug of ours, not the caller's JSON.
  const isBadJson = error instanceof SyntaxError && 'statusCode' in error && error.statusCode === 400
  if (isBadJson || (typeof code === 'string' && code.startsWith('FST_ERR_CTP'))) {
    return new PanelError('VALIDATION_ERROR', 'The body is not valid JSON; send content-type application/json', {
      details: [{ field: 'body', message: 'must be JSON' }],
      cause: error,
    })
  }
  const status = error instanceof Error && 'statusCode' in error ? error.statusCode : undefined
  if (typeof status === 'number' && status >= 400 && status < 500) {
    return new PanelError('VALIDATION_ERROR', 'The request could not be read', { cause: error })
  }
  return new PanelError('INTERNAL_ERROR', 'Something went wrong in the daemon; its log has the details', {
    cause: error,
  })
}

/** The body of a refusal (architecture.md §5); a sign-in that wants a second factor has `data` (api.md §18.11). */
export function errorBody(error: PanelError, requestId: string): Record<string, unknown> {
  return {
    success: false,
    error: error.message,
    code: error.code,
    ...(error.details === undefined ? {} : { details: error.details }),
    ...(Object.keys(error.meta).length === 0
      ? {}
      : { [error.code === 'TWO_FACTOR_REQUIRED' ? 'data' : 'meta']: error.meta }),
    requestId,
  }
}

/** Answers a refusal; `meta.retryAfterSeconds` is also the header Retry-After. */
export function sendError(reply: FastifyReply, error: PanelError, requestId: string): FastifyReply {
  const wait = error.meta['retryAfterSeconds']
  if (typeof wait === 'number') reply.header('retry-after', String(Math.ceil(wait)))
  return reply.status(ERRORS[error.code].status).send(errorBody(error, requestId))
}
