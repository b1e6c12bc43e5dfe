import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { SmtpServer } from './smtp-server.ts'

/** What went wrong with a mail, as a client can branch on it. */
type Reason = 'dns' | 'refused' | 'timeout' | 'tls' | 'auth' | 'recipient' | 'sender' | 'rejected' | 'connection'

interface Failure {
  readonly code: string
  readonly originalCode: string
  readonly responseCode: number | undefined
  readonly response: string
  readonly command: string
  readonly message: string
}

/** The failure as MAIL_FAILED: a sentence that says what to do, `meta.reason`, and the server's own words where it has said some. */
export function mailFailure(error: unknown, server: Pick<SmtpServer, 'host' | 'port' | 'secure'>): PanelError {
  const failure = read(error)
  const reason = reasonOf(failure)
  const meta = {
    reason,
    ...(failure.responseCode === undefined ? {} : { responseCode: failure.responseCode }),
    ...(failure.response === '' ? {} : { response: failure.response }),
  }
  const sentence = `The mail was not sent: ${explain(reason, failure, server)}`
  return new PanelError('MAIL_FAILED', sentence, { meta, cause: error })
}

function reasonOf({ code, originalCode, responseCode, command, message }: Failure): Reason {
  if (code === 'EDNS' || /ENOTFOUND|EAI_AGAIN/.test(`${originalCode} ${message}`)) return 'dns'
  if (/ECONNREFUSED/.test(`${code} ${originalCode} ${message}`)) return 'refused'
  if (code === 'ETIMEDOUT' || originalCode === 'ETIMEDOUT') return 'timeout'
  if (code === 'EAUTH' || code === 'ENOAUTH') return 'auth'
  if (code === 'ETLS' || isTls(`${originalCode} ${message}`)) return 'tls'
  if (code === 'EENVELOPE' || command === 'RCPT TO') return command === 'MAIL FROM' ? 'sender' : 'recipient'
  return responseCode === undefined ? 'connection' : 'rejected'
}

function isTls(text: string): boolean {
  return /ERR_SSL|ERR_TLS|SSL routines|CERT|SELF_SIGNED|UNABLE_TO_|certificate|wrong version number/i.test(text)
}

function explain(
  reason: Reason,
  failure: Failure,
  { host, port, secure }: Pick<SmtpServer, 'host' | 'port' | 'secure'>,
) {
  const said = failure.response === '' ? '' : `: ${failure.response}`
  switch (reason) {
    case 'dns':
      return `the name ${host} is not known; check the host`
    case 'refused':
      return `nothing listens on ${host} port ${port}; check host and port`
    case 'timeout':
      return secure
        ? `${host} port ${port} does not answer; check the firewall, and the port`
        : `${host} port ${port} does not answer; check the firewall, and whether the port speaks TLS from the first byte (secure)`
    case 'tls':
      return tlsAdvice(failure, host, secure)
    case 'auth':
      return `${host} denies the sign-in; check user name and password${said}`
    case 'recipient':
      return `${host} does not take mail for this recipient${said}`
    case 'sender':
      return `${host} does not take mail from this sender; check the sender${said}`
    case 'rejected':
      return `${host} does not take it${said}`
    case 'connection':
      return `the connection to ${host} port ${port} has failed: ${failure.message}`
  }
}

function tlsAdvice({ originalCode, message }: Failure, host: string, secure: boolean): string {
  const text = `${originalCode} ${message}`
  if (/wrong version number|packet length too long/i.test(text)) {
    return `${host} does not speak TLS from the first byte on this port; turn secure off (and requireTls on)`
  }
  if (/SELF_SIGNED|self.signed|UNABLE_TO_(VERIFY|GET)|unable to (verify|get)/i.test(text)) {
    return `the certificate of ${host} is signed by nobody who is trusted; name its authority with smtp.caFile`
  }
  if (/ALTNAME|altnames/i.test(text)) return `the certificate is not for ${host}; use the name that it is made for`
  if (/EXPIRED|has expired/i.test(text)) return `the certificate of ${host} has expired`
  if (!secure && /STARTTLS/i.test(text)) return `${host} does not offer STARTTLS; nothing was sent in clear`
  return `TLS with ${host} has failed: ${message}`
}

function read(error: unknown): Failure {
  const fields = typeof error === 'object' && error !== null ? error : {}
  const text = (name: string): string => {
    const value: unknown = Reflect.get(fields, name)
    return typeof value === 'string' ? oneLine(value) : ''
  }
  const responseCode: unknown = Reflect.get(fields, 'responseCode')
  return {
    code: text('code'),
    originalCode: text('originalCode'),
    responseCode: typeof responseCode === 'number' ? responseCode : undefined,
    response: text('response'),
    command: text('command'),
    message: error instanceof Error ? oneLine(error.message) : '',
  }
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 300)
}
