import { missingFrom } from '../../../../shared/kernel/permissions.ts'
import type { SettingKey, Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'

/** The settings that decide who gets to see a mail: the server, the account there, the way to it, where a bounce goes. */
export const MAIL_TRUST = [
  'smtp.host',
  'smtp.port',
  'smtp.username',
  'smtp.password',
  'smtp.from',
  'smtp.secure',
  'smtp.requireTls',
] as const satisfies readonly SettingKey[]

/** Whoever can write the daemon's own configuration may give everything. */
const OPERATOR = ['*']

/**
 * What the one who set the mail server may give. A mail with a token could be read by them, so none goes to an account that
 * can do more. All of it where file or environment decide, or nobody has set anything.
 */
export async function mailVouched(tx: Tx, settings: Settings): Promise<readonly string[]> {
  for (const key of MAIL_TRUST) {
    if (settings.fixed(key) === undefined && (await settings.read(tx, key)) !== null) {
      return (await settings.read(tx, 'install.mailVouched')) ?? []
    }
  }
  return OPERATOR
}

/** Whether a mail may carry what gives these rights. */
export async function mayMail(tx: Tx, settings: Settings, rights: Iterable<string>): Promise<boolean> {
  return missingFrom(new Set(await mailVouched(tx, settings)), rights).length === 0
}
