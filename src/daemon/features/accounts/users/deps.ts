import type { Mailer } from '../../signals/mail/mailer.ts'
import type { AccountDeps } from '../auth/deps.ts'

/** What the routes of accounts and roles work with. */
export interface UserDeps extends AccountDeps {
  readonly mailer: Mailer
  /** Where people reach this panel, as in `https://panel.example.org`; links in mails begin with it. */
  readonly publicUrl: () => string
}
