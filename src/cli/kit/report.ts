import { ERRORS, PanelError } from '../../shared/kernel/errors.ts'
import { HostProblem } from '../../shared/kernel/host-problem.ts'
import { jsonText } from '../../shared/kernel/terminal-text.ts'
import type { Command } from './command.ts'
import { readEnvironment } from './environment.ts'
import { CliFailure, NoConnection } from './failure.ts'
import { inFlags } from './field-names.ts'
import { oneLine } from './output/escape.ts'

/** What is reported of a failure, whatever threw it. */
export interface Report {
  readonly code: string
  readonly message: string
  readonly exit: number
  readonly details: readonly { readonly field: string; readonly message: string }[] | undefined
  readonly requestId: string | undefined
  readonly hint: string | undefined
}

/** Reads any failure; one that is not expected is exit 1. */
export function reportOf(error: unknown): Report {
  if (error instanceof CliFailure) {
    const { code, message, exit, details, hint } = error
    return { code, message, exit, details, hint, requestId: undefined }
  }
  if (error instanceof PanelError) return reportOfRefusal(error)
  if (error instanceof HostProblem)
    return reportOf(new CliFailure('HOST_PRECONDITION', error.message, { cause: error }))
  const network = networkFailure(error)
  if (network !== undefined) return network
  if (error instanceof Error && error.constructor.name.includes('ZodError')) return strangeAnswer(error)
  const message = error instanceof Error ? error.message : String(error)
  return {
    code: 'UNEXPECTED',
    message,
    exit: 1,
    details: undefined,
    requestId: undefined,
    hint: 'run again with --debug',
  }
}

/** The report for people, in the words of the command: one line, the refused fields below it, then what to do next. */
export function reportText(report: Report, command: Command | undefined): string {
  const { message, details } = inFlags(report, command)
  const lines = [`panel: ${oneLine(message)} (${report.code})`]
  for (const { field, message } of details ?? []) lines.push(`  ${oneLine(field)}: ${oneLine(message)}`)
  if (report.hint !== undefined) lines.push(`  try: ${oneLine(report.hint)}`)
  if (report.requestId !== undefined) lines.push(`  request ${oneLine(report.requestId)}`)
  return `${lines.join('\n')}\n`
}

/** The report for programs, one line of JSON. */
export function reportJson(report: Report): string {
  const { code, message, details, requestId, hint } = report
  return `${jsonText({ error: { code, message, details, requestId, hint } })}\n`
}

/** An answer that is not of the contract: another version, or a defect of the panel. */
function strangeAnswer(error: Error): Report {
  const issues = 'issues' in error && Array.isArray(error.issues) ? error.issues : []
  const details = issues.slice(0, 5).map((issue: unknown) => {
    const fields = new Map<string, unknown>(Object.entries(Object(issue)))
    const path = fields.get('path')
    return { field: Array.isArray(path) ? path.join('.') : '', message: String(fields.get('message')) }
  })
  const message = 'the answer of the panel is not as expected; do the versions fit?'
  return { code: 'UNEXPECTED', message, exit: 1, details, requestId: undefined, hint: 'panel version --check' }
}

function reportOfRefusal(error: PanelError): Report {
  const { requestId, code: newerCode } = error.meta
  return {
    // A code that this version does not know stands in `meta.code`.
    code: typeof newerCode === 'string' ? newerCode : error.code,
    message: error.message,
    exit: ERRORS[error.code].exit,
    details: error.details,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    hint: hintFor(error),
  }
}

function hintFor(error: PanelError): string | undefined {
  const { meta, code } = error
  if (code === 'UNAUTHENTICATED' || code === 'AUTH_EXPIRED') {
    // A sign-in would change nothing as long as the variable stands above it.
    return readEnvironment().token === undefined ? 'panel login' : 'unset PANEL_TOKEN, or give it a key that is valid'
  }
  if (typeof meta['hint'] === 'string') return meta['hint']
  if (code === 'SETUP_REQUIRED') return 'panel setup'
  if (code === 'PERMISSION_DENIED' && Array.isArray(meta['missing'])) return `missing: ${meta['missing'].join(', ')}`
  if (code === 'SERVER_INVALID_STATE' && Array.isArray(meta['allowed']))
    return `possible when: ${meta['allowed'].join(', ')}`
  if (code === 'SERVER_MUST_BE_STOPPED') return 'panel servers stop <server> --wait'
  if (code === 'NODE_OFFLINE') return 'panel nodes list'
  if (typeof meta['retryAfterSeconds'] === 'number') return `again in ${meta['retryAfterSeconds']} s`
  return undefined
}

const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name cannot be looked up now',
  ECONNRESET: 'the connection was cut',
  EHOSTUNREACH: 'there is no way to the host',
  ENETUNREACH: 'there is no way to the network',
  ETIMEDOUT: 'the host does not answer',
  EPIPE: 'the connection was cut',
  UND_ERR_CONNECT_TIMEOUT: 'the host does not answer',
  UND_ERR_HEADERS_TIMEOUT: 'the panel does not answer',
  UND_ERR_BODY_TIMEOUT: 'the panel stopped in the middle of its answer',
  UND_ERR_SOCKET: 'the connection was cut',
}

function networkFailure(error: unknown): Report | undefined {
  const panel = error instanceof NoConnection ? error.origin : 'the panel'
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
    const tls = /CERT|TLS|SSL|SELF_SIGNED|UNABLE_TO/.test(code)
    const known = NETWORK[code] ?? (tls ? `the certificate is not accepted: ${cause.message}` : undefined)
    if (known === undefined) continue
    const hint = tls ? '--ca-file <pem>' : 'panel context list, or panel up on this machine'
    return unreachable(`${panel} cannot be reached: ${known} (${code})`, hint)
  }
  if (!(error instanceof NoConnection)) return undefined
  const { cause } = error
  const reason = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : error.message
  return unreachable(`${panel} cannot be reached: ${reason}`, 'panel context list')
}

function unreachable(message: string, hint: string): Report {
  return { code: 'UNREACHABLE', message, exit: 13, details: undefined, requestId: undefined, hint }
}
