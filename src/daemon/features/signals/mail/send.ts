import type { Log } from '../../../core/log.ts'
import type { Mail, Mailer } from './mailer.ts'

/**
 * Sends the mail if there is a mail server, and answers whether it went: a caller who gets `false` has to hand over by another
 * way what the mail says. A failure is logged without the text of the mail.
 */
export async function send(
  { mailer, log }: { readonly mailer: Mailer; readonly log: Log },
  mail: Mail,
  signal?: AbortSignal,
): Promise<boolean> {
  if (!mailer.isConfigured()) return false
  try {
    await mailer.send(mail, signal)
    return true
  } catch (error) {
    log.warn({ err: error, subject: mail.subject }, 'cannot send mail')
    return false
  }
}
