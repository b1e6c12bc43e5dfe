import { isLoopbackHost, parseSender } from '../../../../shared/kernel/setting-values.ts'
import type { Settings, SettingValue } from '../../../core/settings.ts'

/** The mail server that the settings name, with what they leave open filled in. */
export interface SmtpServer {
  readonly host: string
  readonly port: number
  /** TLS from the first byte. */
  readonly secure: boolean
  /** STARTTLS must succeed before anything is sent. */
  readonly requireTls: boolean
  readonly username: string | null
  readonly from: { readonly name: string; readonly address: string }
  readonly replyTo: { readonly name: string; readonly address: string } | null
  readonly pool: boolean
  readonly maxConnections: number
  readonly maxMessages: number
}

/** How the connection is protected: what the settings say, or what is safe for the host and port. */
export function protection(smtp: {
  readonly host: string | null
  readonly port: number | null
  readonly secure: boolean | null
  readonly requireTls: boolean | null
}): { readonly secure: boolean; readonly requireTls: boolean } {
  const secure = smtp.secure ?? smtp.port === 465
  return { secure, requireTls: !secure && (smtp.requireTls ?? !isLoopbackHost(smtp.host ?? '')) }
}

/** The server to send by; `undefined` while host or sender are missing. */
export function smtpServer(settings: Pick<Settings, 'get'>): SmtpServer | undefined {
  const host = settings.get('smtp.host')
  const username = settings.get('smtp.username')
  const from = senderOf(settings.get('smtp.from') ?? username)
  if (host === null || from === null) return undefined
  const [port, secure, requireTls] = [
    settings.get('smtp.port'),
    settings.get('smtp.secure'),
    settings.get('smtp.requireTls'),
  ]
  const how = protection({ host, port, secure, requireTls })
  return {
    host,
    port: port ?? (how.secure ? 465 : 587),
    ...how,
    username,
    from,
    replyTo: senderOf(settings.get('smtp.replyTo')),
    pool: settings.get('smtp.pool') ?? true,
    maxConnections: settings.get('smtp.maxConnections') ?? 5,
    maxMessages: settings.get('smtp.maxMessages') ?? 100,
  }
}

function senderOf(text: SettingValue<'smtp.from'>): SmtpServer['from'] | null {
  return text === null ? null : (parseSender(text) ?? null)
}
