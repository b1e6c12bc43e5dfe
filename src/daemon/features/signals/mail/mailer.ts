/** A message to one person, as plain text. */
export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** Sends mail. Each message is tried once; who needs more certainty keeps it in an outbox and tries again. */
export interface Mailer {
  /** Whether there is a mail server to send by. */
  isConfigured(): boolean
  /** Resolves when the mail server has taken the message; rejects with MAIL_NOT_CONFIGURED or MAIL_FAILED. */
  send(mail: Mail, signal?: AbortSignal): Promise<void>
}
