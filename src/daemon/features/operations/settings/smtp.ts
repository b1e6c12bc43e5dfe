import * as api from '../../../../shared/api/smtp-settings.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { missingFrom } from '../../../../shared/kernel/permissions.ts'
import { isLoopbackHost } from '../../../../shared/kernel/setting-values.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Credentials } from '../../../access/caller.ts'
import { operationsOver, type Principal, recordChange, type WorkOver } from '../../../access/operation.ts'
import type { SettingKey } from '../../../core/settings.ts'
import { type Context, callerOf } from '../../../http/route.ts'
import { heldForGood, holderNow, refuseMissing } from '../../accounts/auth/grant-cap.ts'
import { MAIL_TRUST } from '../../accounts/auth/mail-trust.ts'
import type { Mailer } from '../../signals/mail/mailer.ts'
import { protection } from '../../signals/mail/smtp-server.ts'
import {
  type ChangeRules,
  changeGroup,
  type GroupDeps,
  type GroupValues,
  groupView,
  type SettingGroup,
} from './group.ts'

/** What the settings of mail need beside those of every group. */
export interface SmtpDeps extends GroupDeps {
  readonly mailer: Mailer
  readonly clock: Clock
  readonly credentials: Credentials
}

const FIELDS = {
  host: 'smtp.host',
  port: 'smtp.port',
  username: 'smtp.username',
  password: 'smtp.password',
  from: 'smtp.from',
  replyTo: 'smtp.replyTo',
  secure: 'smtp.secure',
  requireTls: 'smtp.requireTls',
  pool: 'smtp.pool',
  maxConnections: 'smtp.maxConnections',
  maxMessages: 'smtp.maxMessages',
} as const

const SMTP: SettingGroup<typeof FIELDS> = {
  name: 'smtp',
  event: 'smtp_settings_updated',
  fields: FIELDS,
}

/** Sends a test mail to the given address, or to that of the caller. */
export async function testSmtpSettings(
  deps: SmtpDeps,
  { body }: Input<typeof api.testSmtpSettings>,
  context: Context<typeof api.testSmtpSettings>,
) {
  const to = body?.to ?? (await ownAddress(deps, context))
  return testMail(deps, { principal: context.principal, to, signal: context.signal })
}

/** The mail server as it is answered. The mailer looks at the settings with each message. */
export function smtpSettings(deps: Pick<GroupDeps, 'settings'>) {
  return groupView(deps, SMTP)
}

export const updateSmtpSettings = operationsOver<SmtpDeps>()(api.updateSmtpSettings, async (work, { body }) => {
  const decide: Decide = (_, change) => vouch(work, { ...change, saved: body.host })
  const { view, done } = await changeGroup(work, SMTP, { given: body, rules: { check: refuseClearText, decide } })
  return { ...done, answer: view }
})

/** Sends a test mail, and writes down how that went: the mail server is asked before the transaction. */
export async function testMail(
  deps: SmtpDeps,
  { principal, to, signal }: { readonly principal: Principal; readonly to: string; readonly signal: AbortSignal },
): Promise<api.SmtpTestResult> {
  const result = await sendTest(deps, to, signal)
  const { ok, code } = result
  const audit = { resourceId: SMTP.name, details: { to, ok, code } }
  await deps.db.write((tx) => recordChange(tx, { deps, principal, endpoint: api.testSmtpSettings }, { audit }))
  return result
}

type Decide = NonNullable<ChangeRules<typeof FIELDS>['decide']>

/**
 * Mails carry tokens, and who sets the mail server could read them: so they must hold all that the one before held, and
 * mails bring nobody more than that from then on. Who saves the host again as it is takes over, if they hold more.
 */
async function vouch(
  work: WorkOver<SmtpDeps>,
  one: Parameters<Decide>[1] & { readonly saved: string | null | undefined },
): ReturnType<Decide> {
  const { tx, deps } = work
  const { settings } = deps
  const { before, changed, saved } = one
  const trust = Object.entries(FIELDS).filter(([, key]) => MAIL_TRUST.some((one) => one === key))
  const set = trust.filter(([field]) => Reflect.get(before, field) !== null)
  const fixed = (key: SettingKey): boolean => settings.fixed(key) !== undefined
  const byOperator = set.every(([, key]) => fixed(key))
  const stored = (await settings.read(tx, 'install.mailVouched')) ?? []
  const vouched = set.length === 0 ? [] : byOperator ? ['*'] : stored
  const held = await heldForGood(tx, await holderNow(work))
  const missing = missingFrom(held, vouched)
  const trusting = trust.some(([field]) => changed.includes(field))
  if (trusting) refuseMissing(missing)
  const takesOver = typeof saved === 'string' && !byOperator && missing.length === 0
  if (!trusting && !(takesOver && missingFrom(new Set(vouched), held).length > 0)) return {}
  const after = [...held].sort()
  await settings.set(tx, 'install.mailVouched', after)
  return trusting ? {} : { vouched: { before: vouched, after } }
}

/** What contradicts itself, and what would send a password over the network in clear. */
function refuseClearText(smtp: GroupValues<typeof FIELDS>): void {
  if (smtp.secure === true && smtp.requireTls === true) {
    throw fieldError(
      'body.requireTls',
      'must not be true with secure: that is TLS from the first byte, this is STARTTLS',
    )
  }
  if (smtp.port === 465 && smtp.secure === false) {
    throw fieldError('body.secure', 'must not be false on port 465, which speaks TLS from the first byte')
  }
  const { secure, requireTls } = protection(smtp)
  const remote = smtp.host !== null && !isLoopbackHost(smtp.host)
  if (remote && smtp.username !== null && !secure && !requireTls) {
    throw fieldError(
      'body.requireTls',
      'must not be false with a user name: the password could cross the network in clear',
    )
  }
}

async function ownAddress({ db }: SmtpDeps, context: Pick<Context, 'caller'>): Promise<string> {
  const { userId } = callerOf(context)
  const user = await db.read.selectFrom('user').select('email').where('id', '=', userId).executeTakeFirst()
  if (user === undefined || user.email.endsWith('.invalid')) {
    throw fieldError('body.to', 'is required: your account has no e-mail address that mail could go to')
  }
  return user.email
}

async function sendTest(deps: SmtpDeps, to: string, signal: AbortSignal): Promise<api.SmtpTestResult> {
  const { settings, mailer } = deps
  const name = settings.get('panel.name')
  try {
    const text = `This is a test mail of ${name}, sent ${localTime(deps)}. Mail works.\n`
    await mailer.send({ to, subject: `${name}: test mail`, text }, signal)
    return { ok: true, to }
  } catch (error) {
    if (!(error instanceof PanelError)) throw error
    const { code, message } = error
    if (code !== 'MAIL_FAILED' && code !== 'MAIL_NOT_CONFIGURED' && code !== 'CREDENTIAL_ENCRYPTION_KEY_MISSING')
      throw error
    return { ok: false, to, code, error: message }
  }
}

/** The present time as the installation's language and time zone write it. */
function localTime({ settings, clock }: SmtpDeps): string {
  return new Intl.DateTimeFormat(settings.get('panel.locale'), {
    dateStyle: 'long',
    timeStyle: 'long',
    timeZone: settings.get('panel.timezone'),
  }).format(clock.nowMs())
}
