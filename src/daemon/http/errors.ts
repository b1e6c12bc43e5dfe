import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { ERRORS, type FieldProblem, PanelError } from '../../shared/kernel/errors.ts'
import { mustBe } from '../../shared/kernel/refusal-words.ts'

/** Parses one part of a request; every refused field is named once, as `<part>.<path>`. */
export function parsePart<T extends z.ZodType>(
  part: 'params' | 'query' | 'body',
  schema: T,
  raw: unknown,
): z.output<T> {
  // What is wrong is put into words only where something is: most of what comes is valid.
  const valid = schema.safeParse(raw)
  if (valid.success) return valid.data
  const known = new Map<string, readonly string[]>()
  const parsed = schema.safeParse(raw, {
    error: (issue) => {
      if (issue.code === 'unrecognized_keys') known.set(pathOf(issue), fieldsOf(issue.inst))
      return mustBe(issue)
    },
  })
  if (parsed.success) return parsed.data
  const problems = inRange(parsed.error.issues).flatMap((issue): FieldProblem[] => {
    if (issue.code !== 'unrecognized_keys') return [{ field: fieldName(part, issue.path), message: issue.message }]
    return issue.keys.slice(0, MOST_PROBLEMS).map((key) => ({
      field: fieldName(part, [...issue.path, key.slice(0, MOST_NAME)]),
      message: `is not a field of this request${nearest(key, known.get(pathOf(issue)) ?? [])}`,
    }))
  })
  // Of several rules that a value breaks the first one says what it must be.
  const details = [...new Map(problems.toReversed().map((problem) => [problem.field, problem])).values()]
    .toReversed()
    .slice(0, MOST_PROBLEMS)
  const [first] = details
  throw new PanelError(
    'VALIDATION_ERROR',
    `The request is not valid: ${first?.field ?? part} ${first?.message ?? ''}`.trim(),
    {
      details,
    },
  )
}

/** A whole number beyond all numbers breaks the bound of its field as well, which is the one to name. */
function inRange(issues: readonly z.core.$ZodIssue[]): readonly z.core.$ZodIssue[] {
  return issues.filter((issue) => {
    const isSafeRange = (issue.code === 'too_big' || issue.code === 'too_small') && issue.origin === 'int'
    return !isSafeRange || !issues.some((other) => other !== issue && pathOf(other) === pathOf(issue))
  })
}

/** A body may hold any number of wrong fields, with names of any length. */
const MOST_PROBLEMS = 100
const MOST_NAME = 100

const pathOf = ({ path }: { readonly path?: readonly PropertyKey[] | undefined }): string =>
  JSON.stringify(path?.map(String) ?? [])

function fieldName(part: string, path: readonly PropertyKey[]): string {
  return [part, ...path.map(String)].join('.')
}

function fieldsOf(schema: unknown): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}

/** "; did you mean x?", when a known name differs by little. */
function nearest(name: string, known: readonly string[]): string {
  const plain = (text: string): string => text.toLowerCase().replace(/[_-]/g, '')
  const [best] = known
    .map((one) => ({ one, distance: distance(plain(name).slice(0, MOST_NAME), plain(one)) }))
    .filter(({ one, distance }) => distance <= Math.max(1, Math.floor(one.length / 4)))
    .sort((a, b) => a.distance - b.distance)
  return best === undefined ? '' : `; did you mean ${best.one}?`
}

/** How many letters have to be put in, left out or changed. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row.at(-1) ?? 0
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

/** The body of a refusal; a sign-in that wants a second factor has `data`. */
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

const OF_BYTES = [
  'content-length',
  'content-range',
  'content-disposition',
  'accept-ranges',
  'last-modified',
  'etag',
] as const

/** Answers a refusal; `meta.retryAfterSeconds` is also the header Retry-After, and the size of what has no such range Content-Range. */
export function sendError(reply: FastifyReply, error: PanelError, requestId: string): FastifyReply {
  const wait = error.meta['retryAfterSeconds']
  if (typeof wait === 'number') reply.header('retry-after', String(Math.ceil(wait)))
  // Those of bytes that were to be answered.
  for (const name of OF_BYTES) reply.removeHeader(name)
  if (error.code === 'RANGE_NOT_SATISFIABLE') reply.header('content-range', `bytes */${String(error.meta['size'])}`)
  reply.header('content-type', 'application/json; charset=utf-8')
  return reply.status(ERRORS[error.code].status).send(errorBody(error, requestId))
}
