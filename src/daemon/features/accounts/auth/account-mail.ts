import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { IsoTime } from '../../../../shared/kernel/time.ts'
import type { Queries } from '../../../db/db.ts'
import type { Mail } from '../../signals/mail/mailer.ts'
import { rightsOf } from './account-rights.ts'
import { findAccount, isBanned } from './accounts.ts'
import type { SignInDeps } from './deps.ts'
import { mayMail } from './mail-trust.ts'
import { issueToken, type Purpose } from './mailed-tokens.ts'

type MailDeps = Pick<SignInDeps, 'db' | 'clock' | 'settings' | 'mailer' | 'deliveries' | 'publicUrl'>

/** Has the mail of this purpose sent after the answer; nothing is sent when the account has had too many of late. */
export function sendAccountMail(deps: MailDeps, user: { id: string; email: string }, purpose: Purpose): void {
  deps.deliveries.run(`a mail to ${user.id}`, async (signal) => {
    const token = await deps.db.write(async (tx) => {
      if (purpose === 'reset' && !(await mayMail(tx, deps.settings, await rightsOf(tx, user.id)))) throw unvouched()
      return issueToken(tx, deps.clock, user, purpose)
    })
    if (token !== undefined) await deps.mailer.send(await textOf(deps, user.email, purpose, token), signal)
  })
}

/** The same, with a token that has been made already. */
export function sendMadeToken(
  deps: MailDeps,
  user: { id: string; email: string },
  made: { purpose: Purpose; token: string },
): void {
  deps.deliveries.run(`a mail to ${user.id}`, async (signal) => {
    await deps.mailer.send(await textOf(deps, user.email, made.purpose, made.token), signal)
  })
}

/** The account with this address, if mail may go to it at this time. */
export async function mailableAccount(
  q: Queries,
  email: string,
  at: IsoTime,
): Promise<{ id: string; email: string } | undefined> {
  const account = await findAccount(q, email)
  return account === undefined || isBanned(account, at) ? undefined : account
}

/** Ends in the log: the one who asked must not learn more of the account. */
function unvouched(): PanelError {
  return new PanelError(
    'MAIL_FAILED',
    'Not sent: the account can do more than the one who set the mail server; an administrator who can do everything ' +
      'vouches for it by saving its host again: panel settings smtp set --host …',
  )
}

async function textOf(deps: MailDeps, to: string, purpose: Purpose, token: string): Promise<Mail> {
  const name = deps.settings.get('panel.name')
  const url = deps.publicUrl()
  if (purpose === 'reset') {
    return {
      to,
      subject: `${name}: a new password`,
      text:
        `Somebody, hopefully you, asked for a new password for your account at ${name} (${url}).\n\n` +
        'Run this command within one hour and paste the token below when it asks for it:\n\n' +
        `  panel auth reset-password --url ${url}\n\n` +
        `Token: ${token}\n\n` +
        'The token works once. All sessions of the account end. If it was not you, there is nothing to do.\n',
    }
  }
  return {
    to,
    subject: `${name}: confirm your e-mail address`,
    text:
      `Your e-mail address was given for an account at ${name} (${url}).\n\n` +
      'Run this command within one day and paste the token below when it asks for it:\n\n' +
      `  panel auth verify-email --url ${url}\n\n` +
      `Token: ${token}\n\n` +
      'If it was not you, there is nothing to do.\n',
  }
}
