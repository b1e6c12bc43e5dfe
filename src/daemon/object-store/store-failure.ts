import { PanelError } from '../../shared/kernel/errors.ts'
import { connectionCause } from '../../shared/platform/connection-cause.ts'

/** Why an object store cannot be used, for programs. */
export type StoreProblem =
  | 'dns'
  | 'refused'
  | 'unreachable'
  | 'timeout'
  | 'tls'
  | 'denied'
  | 'credentials'
  | 'bucket'
  | 'region'
  | 'clock'
  | 'busy'
  | 'connection'
  | 'rejected'
  | 'missing'

/** Whose answer it was. */
export interface StorePlace {
  readonly endpoint: string
  readonly bucket: string
  readonly region: string
}

/** A failure of the store in a sentence. `code` is what S3 itself called it. */
export class StoreFailure extends PanelError {
  readonly reason: StoreProblem
  readonly s3Code: string | undefined
  /** Whether the same request may succeed a moment later. */
  readonly passes: boolean
  /** What the store wants to be left alone for before that. */
  readonly retryAfterMs: number

  constructor(
    reason: StoreProblem,
    message: string,
    {
      s3Code,
      passes = false,
      retryAfterMs = 0,
      cause,
    }: { s3Code?: string | undefined; passes?: boolean; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super('BACKUP_STORE_FAILED', message, {
      meta: { reason, ...(s3Code === undefined ? {} : { storeCode: s3Code }) },
      ...(cause === undefined ? {} : { cause }),
    })
    this.reason = reason
    this.s3Code = s3Code
    this.passes = passes
    this.retryAfterMs = retryAfterMs
  }
}

/** Codes of S3 that pass by themselves, whatever their status. */
const PASSING = new Set(['SlowDown', 'RequestTimeout', 'InternalError', 'ServiceUnavailable', 'OperationAborted'])

/** An answer that is no success. */
export interface RefusedAnswer {
  readonly status: number
  readonly code: string
  readonly message: string
  /** What the access key needs for what was asked, as S3 calls it. */
  readonly permission: string
  /** The time of the store, where it has said it, and of this machine. */
  readonly times?: { readonly there: string; readonly here: string } | undefined
  readonly retryAfterMs?: number
}

/** What an answer that is no success means. */
export function refusal(
  { status, code, message, permission, times, retryAfterMs = 0 }: RefusedAnswer,
  { endpoint, bucket, region }: StorePlace,
): StoreFailure {
  const said = message === '' ? '' : `: ${message}`
  const fail = (reason: StoreProblem, text: string): StoreFailure =>
    new StoreFailure(reason, text, { s3Code: code === '' ? `HTTP ${status}` : code })
  if (status >= 500 || status === 429 || PASSING.has(code)) {
    const text = `${endpoint} is busy or out of order (${code || status})${said}; try again later`
    return new StoreFailure('busy', text, { s3Code: code || `HTTP ${status}`, passes: true, retryAfterMs })
  }
  switch (code) {
    case 'NoSuchBucket':
      return fail('bucket', `there is no bucket ${bucket} at ${endpoint}; make it there, or name another one`)
    case 'NoSuchKey':
    case 'NoSuchUpload':
      return fail('missing', `${endpoint} has no such object in ${bucket}${said}`)
    case 'InvalidAccessKeyId':
      return fail('credentials', `${endpoint} does not know the access key; check it`)
    case 'SignatureDoesNotMatch':
      return fail(
        'credentials',
        `${endpoint} refuses the signature; check the secret access key, and the region (${region})`,
      )
    case 'RequestTimeTooSkewed':
      return fail(
        'clock',
        `the clocks of ${endpoint} and of this machine differ too much${times === undefined ? '' : ` (${times.there} there, ${times.here} here)`}; set this machine's by NTP`,
      )
    case 'AuthorizationHeaderMalformed':
    case 'PermanentRedirect':
    case 'TemporaryRedirect':
    case 'IllegalLocationConstraintException':
      return fail('region', `the bucket ${bucket} is not in the region ${region}, or not at ${endpoint}${said}`)
    case 'AccessDenied':
      return fail(
        'denied',
        `${endpoint} denies it for the bucket ${bucket} in ${region}; give the access key ${permission} there${said}`,
      )
  }
  if (status === 401 || status === 403) {
    return fail(
      'denied',
      `${endpoint} denies it for the bucket ${bucket} in ${region} (${status}); check the access key, and that it has ${permission} there${said}`,
    )
  }
  if (status === 404) return fail('missing', `${endpoint} has no such object or bucket (${bucket})${said}`)
  if (status >= 300 && status < 400) {
    return fail('region', `${endpoint} sends requests elsewhere (${status}); check endpoint, region and path style`)
  }
  return fail('rejected', `${endpoint} has refused it (${code || status})${said}`)
}

/** Why a request had no answer. */
export function connectionFailure(error: unknown, { endpoint }: StorePlace): StoreFailure {
  if (error instanceof StoreFailure) return error
  const { reason, message } = connectionCause(error)
  return new StoreFailure(reason, explain(reason, endpoint, message), { passes: reason !== 'tls', cause: error })
}

function explain(reason: StoreProblem, endpoint: string, message: string): string {
  switch (reason) {
    case 'dns':
      return `the name of ${endpoint} is not known; check the endpoint`
    case 'refused':
      return `nothing listens at ${endpoint}; check address and port`
    case 'unreachable':
      return `there is no way to ${endpoint}; check the address and the network`
    case 'timeout':
      return `${endpoint} does not answer in time; check the firewall, and that it speaks S3`
    case 'tls':
      return `TLS with ${endpoint} has failed: ${message}; an authority of your own is trusted by NODE_EXTRA_CA_CERTS`
    default:
      return `the connection to ${endpoint} has failed: ${message}`
  }
}
