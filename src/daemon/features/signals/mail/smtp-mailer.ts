import { rootCertificates } from 'node:tls'
import type { createTransport, SMTPPoolOptions } from 'nodemailer'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { parseSender } from '../../../../shared/kernel/setting-values.ts'
import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import { secretSetting } from '../../../core/setting-secrets.ts'
import type { Settings } from '../../../core/settings.ts'
import { mailFailure } from './mail-failure.ts'
import type { Mail, Mailer } from './mailer.ts'
import { type SmtpServer, smtpServer } from './smtp-server.ts'

/** What the mailer is made of. */
export interface SmtpMailerDeps {
  readonly settings: Settings
  readonly vault: Vault
  readonly log: Log
  /** Certificates (PEM) that are trusted beside the usual ones. */
  readonly ca: string | undefined
}

/** A mailer by SMTP. Connections are kept for the next message, and made anew as soon as the settings have changed. */
export interface SmtpMailer extends Mailer {
  /** Ends all connections; a message that is being handed over then fails. */
  close(): void
}

const CONNECT_MS = 15_000
/** The server of a message may look it over for long before it takes it (RFC 5321 §4.5.3.2), but not for ever. */
const IDLE_MS = 60_000
const MOST_HEADER_CHARS = 500

/** The mailer of the `smtp.*` settings. */
export function createSmtpMailer(deps: SmtpMailerDeps): SmtpMailer {
  const { settings, vault, log } = deps
  let current: { readonly key: string; readonly transport: Transport } | undefined
  const transports = new Set<Transport>()

  /** The connections of these settings. Those of others end when what they are sending is sent. */
  function transportFor(server: SmtpServer, create: typeof createTransport): Transport {
    const options = transportOptions(server, secretSetting(settings, vault, 'smtp.password'), deps.ca)
    const key = JSON.stringify(options)
    if (current?.key === key) return current.transport
    current?.transport.retire()
    const transport = new Transport(create(options), log, () => transports.delete(transport))
    transports.add(transport)
    current = { key, transport }
    log.info({ host: server.host, port: server.port }, 'mail transport configured')
    return transport
  }

  return {
    isConfigured: () => smtpServer(settings) !== undefined,
    send: async (mail, signal) => {
      const server = smtpServer(settings) ?? notConfigured()
      const message = messageOf(mail, server)
      try {
        // Loaded here, because a panel without mail never needs it.
        const { createTransport } = await import('nodemailer')
        await transportFor(server, createTransport).send({ ...message, ...(signal === undefined ? {} : { signal }) })
      } catch (error) {
        if (error instanceof PanelError) throw error
        signal?.throwIfAborted()
        throw mailFailure(error, server)
      }
    },
    close: () => {
      current = undefined
      for (const transport of transports) transport.close()
    },
  }
}

type Pool = ReturnType<typeof createTransport<unknown, SMTPPoolOptions>>
type Message = ReturnType<typeof messageOf> & { readonly signal?: AbortSignal }

/** The connections of one set of settings. */
class Transport {
  readonly #mailer: Pool
  readonly #ended: () => void
  #sending = 0
  #retired = false

  constructor(mailer: Pool, log: Log, ended: () => void) {
    this.#mailer = mailer
    // Of a connection without a message: whoever sends learns it by the rejection.
    this.#mailer.on('error', (err) => log.warn({ err }, 'mail server connection failed'))
    this.#ended = ended
  }

  async send(message: Message): Promise<void> {
    this.#sending += 1
    try {
      await this.#mailer.sendMail(message)
    } finally {
      this.#sending -= 1
      if (this.#retired && this.#sending === 0) this.close()
    }
  }

  /** Ends when the last message is sent. */
  retire(): void {
    this.#retired = true
    if (this.#sending === 0) this.close()
  }

  close(): void {
    this.#mailer.close({ force: true })
    this.#ended()
  }
}

function transportOptions(server: SmtpServer, password: string | null, ca: string | undefined) {
  const { host, port, secure, requireTls, username } = server
  return {
    pool: true as const,
    host,
    port,
    secure,
    requireTLS: requireTls,
    ...(username === null ? {} : { auth: { user: username, pass: password ?? '' } }),
    maxConnections: server.maxConnections,
    // Without a pool each message has a connection of its own.
    maxMessages: server.pool ? server.maxMessages : 1,
    maxRequeues: 1,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    dnsTimeout: CONNECT_MS,
    socketTimeout: IDLE_MS,
    // Ends before the time-out above, which would be reported as a failure.
    idleTimeout: IDLE_MS / 2,
    tls: {
      minVersion: 'TLSv1.2' as const,
      // Where TLS is not required, whoever stands in between could leave it out altogether: a certificate proves nothing.
      rejectUnauthorized: secure || requireTls,
      ...(ca === undefined ? {} : { ca: [...rootCertificates, ca] }),
    },
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

/** Addresses go as such and never as text that could hold several; headers are single lines. */
function messageOf(mail: Mail, server: SmtpServer) {
  const to = parseSender(mail.to)
  if (to === undefined || to.name !== '') {
    throw new PanelError('MAIL_FAILED', `The mail was not sent: ${JSON.stringify(mail.to)} is not one e-mail address`)
  }
  const { from, replyTo } = server
  return {
    from: { name: from.name, address: from.address },
    to: { name: '', address: to.address },
    ...(replyTo === null ? {} : { replyTo: { name: replyTo.name, address: replyTo.address } }),
    envelope: { from: from.address, to: [to.address] },
    subject: mail.subject.replace(/\p{Cc}+/gu, ' ').slice(0, MOST_HEADER_CHARS),
    text: mail.text,
  }
}

function notConfigured(): never {
  throw new PanelError(
    'MAIL_NOT_CONFIGURED',
    'There is no mail server to send by; an administrator sets it with: panel settings smtp set --host … --from …',
  )
}
