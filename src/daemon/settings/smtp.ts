import {
  getSmtpSettings,
  type SmtpTestResult,
  testSmtpSettings,
  updateSmtpSettings,
} from '../../shared/api/smtp-settings.ts'
import { fieldError, PanelError } from '../../shared/errors.ts'
import { isLoopbackHost } from '../../shared/setting-values.ts'
import type { Clock } from '../../shared/time.ts'
import { type Context, callerOf, type Route, route } from '../core/route.ts'
import type { Mailer } from '../mail/mailer.ts'
import { protection } from '../mail/smtp-server.ts'
import { changeGroup, type GroupDeps, type GroupValues, groupView, type SettingGroup } from './group.ts'

/** What the settings of mail need beside those of every group. */
export interface SmtpDeps extends GroupDeps {
  readonly mailer: Mailer
  readonly clock: Clock
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
  action: 'settings.smtp_update',
  event: 'smtp_settings_updated',
  fields: FIELDS,
}

/** The mail server and its test. The mailer looks at the settings with each message. */
export function smtpRoutes(deps: SmtpDeps): Route[] {
  return [
    route(getSmtpSettings, async () => groupView(deps, SMTP)),
    route(updateSmtpSettings, async ({ body }, { actor }) => {
      await changeGroup(deps, SMTP, { given: body, actor }, { check: refuseClearText })
      return groupView(deps, SMTP)
    }),
    route(testSmtpSettings, async ({ body }, context) => {
      const to = body?.to ?? (await ownAddress(deps, context))
      const result = await sendTest(deps, to, context.signal)
      const { ok, code } = result
      await deps.db.write((tx) =>
        deps.audit.record(tx, context.actor, {
          action: 'settings.smtp_test',
          resource: 'system',
          resourceId: SMTP.name,
          details: { to, ok, code },
        }),
      )
      return result
    }),
  ]
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

async function sendTest(deps: SmtpDeps, to: string, signal: AbortSignal): Promise<SmtpTestResult> {
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
