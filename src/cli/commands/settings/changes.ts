import { updateSecuritySettings } from '../../../shared/api/security-settings.ts'
import { updateLocalizationSettings, updateModManagerSettings } from '../../../shared/api/settings.ts'
import { updateSmtpSettings } from '../../../shared/api/smtp-settings.ts'
import { getThemeSettings, updateThemeSettings } from '../../../shared/api/theme-settings.ts'
import { THEME_DEFAULTS } from '../../../shared/kernel/setting-values.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { readSecret } from '../../kit/prompt.ts'
import { readText } from '../../kit/read-file.ts'
import { call } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import type { Run } from '../../kit/run.ts'
import { showGroup } from './actions.ts'

type Body = Record<string, unknown>

export const setSecurity: Action = async (run) => {
  const body = given(run, await fieldsOf(run))
  await showGroup(run, 'security', await call(run, updateSecuritySettings, { params: {}, body }))
}

export const setLocalization: Action = async (run) => {
  const body = given(run, await fieldsOf(run))
  await showGroup(run, 'localization', await call(run, updateLocalizationSettings, { params: {}, body }))
}

/** How each way of TLS is said in the fields of the API. */
const TLS: Readonly<Record<string, Body>> = {
  starttls: { secure: false, requireTls: true },
  implicit: { secure: true, requireTls: null },
  auto: { secure: null, requireTls: null },
  off: { secure: false, requireTls: false },
}

const SMTP_UNSET = {
  host: 'host',
  port: 'port',
  user: 'username',
  password: 'password',
  from: 'from',
  'reply-to': 'replyTo',
  pool: 'pool',
  'max-connections': 'maxConnections',
  'max-messages': 'maxMessages',
} as const

export const setSmtp: Action = async (run) => {
  const body = { ...(await fieldsOf(run)), ...TLS[run.args.text('tls') ?? ''], ...unset(run, SMTP_UNSET) }
  const password = await secretOf(run, 'password', 'Password of the mail server:')
  if (password !== undefined) Object.assign(body, { password })
  await showGroup(run, 'smtp', await call(run, updateSmtpSettings, { params: {}, body: given(run, body) }))
}

const THEME_UNSET = { 'logo-url': 'logoUrl', 'favicon-url': 'faviconUrl', 'custom-css': 'customCss' } as const

export const setTheme: Action = async (run) => {
  const file = run.args.text('custom-css-file')
  const css = file === undefined ? {} : { customCss: await readText(file) }
  const body = given(run, { ...(await fieldsOf(run)), ...css, ...unset(run, THEME_UNSET) })
  await showGroup(run, 'theme', await call(run, updateThemeSettings, { params: {}, body }))
}

/** What file or environment fix stays as it is. */
export const resetTheme: Action = async (run) => {
  await run.prompt.confirm('Set the theme back to the default?')
  const { locked, metadata } = await call(run, getThemeSettings, { params: {} })
  const nothing = Object.fromEntries(Object.keys(metadata).map((key) => [key, null]))
  const fields = Object.entries({ ...THEME_DEFAULTS, metadata: nothing }).filter(
    ([field]) => locked[field] === undefined,
  )
  const body = Object.fromEntries(fields)
  await showGroup(run, 'theme', await call(run, updateThemeSettings, { params: {}, body }))
}

const KEYS_UNSET = { 'curseforge-key': 'curseforgeApiKey', 'modrinth-key': 'modrinthApiKey' } as const

export const setModManager: Action = async (run) => {
  const stdin = Object.keys(KEYS_UNSET).filter((name) => run.args.flag(`${name}-stdin`))
  if (stdin.length > 1) throw usage('only one key can be read from stdin; give the other one by a file')
  const body: Body = unset(run, KEYS_UNSET)
  for (const [name, field] of Object.entries(KEYS_UNSET)) {
    const key = await secretOf(run, name, `The ${name.replace('-', ' ')}:`)
    if (key !== undefined) body[field] = key
  }
  await showGroup(run, 'mod-manager', await call(run, updateModManagerSettings, { params: {}, body: given(run, body) }))
}

function given(run: Run, body: Body): Body {
  if (Object.keys(body).length === 0) throw usage('nothing to change is given', `panel ${run.path.join(' ')} --help`)
  return body
}

/** The secret by `--<name>-stdin`, `--<name>-file` or, with `--ask-<name>`, a hidden question. */
async function secretOf(run: Run, name: string, question: string): Promise<string | undefined> {
  const { args } = run
  const wanted = args.flag(`${name}-stdin`) || args.text(`${name}-file`) !== undefined || args.flag(`ask-${name}`)
  return wanted ? readSecret({ name, question }, run) : undefined
}

function unset(run: Run, names: Readonly<Record<string, string>>): Body {
  const fields = run.args.list('unset').map((name) => {
    const known = names[name.replace(/^--/, '')]
    if (known === undefined) throw usage(`--unset ${name}: choose from ${Object.keys(names).join(', ')}`)
    return [known, null]
  })
  return Object.fromEntries(fields)
}
