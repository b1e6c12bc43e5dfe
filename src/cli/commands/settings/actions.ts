import { getOidcConfig, type OidcConfig } from '../../../shared/api/oidc-settings.ts'
import { getSecuritySettings } from '../../../shared/api/security-settings.ts'
import * as api from '../../../shared/api/settings.ts'
import { getSmtpSettings, type SmtpTestResult, testSmtpSettings } from '../../../shared/api/smtp-settings.ts'
import { getThemeSettings } from '../../../shared/api/theme-settings.ts'
import type { Action } from '../../kit/command.ts'
import { CLI_FAILURES } from '../../kit/failure.ts'
import { cellOf, column, type View, view } from '../../kit/output/view.ts'
import { call } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import type { Run } from '../../kit/run.ts'
import { flagName } from './flag-name.ts'

type Group = Readonly<Record<string, unknown>>

const NOTHING = { params: {} }

/** Shows a group as it was answered, field by field, and below which fields are fixed. */
export async function showGroup(run: Run, name: string, group: Group): Promise<void> {
  const { locked: _, ...values } = group
  const shown: View<Group> = {
    id: () => name,
    name: () => name,
    columns: [
      ...leavesOf(values).map(([path, value]) =>
        column<Group>(path.map(flagName).join(' ').toUpperCase(), () => cellOf(value)),
      ),
      column<Group>('FIXED', (row) => fixedList(row['locked'])),
    ],
  }
  await run.out.item(group, shown)
}

export const getSecurity = showing('security', (run) => call(run, getSecuritySettings, NOTHING))
export const getSmtp = showing('smtp', (run) => call(run, getSmtpSettings, NOTHING))
export const getTheme = showing('theme', (run) => call(run, getThemeSettings, NOTHING))
export const getLocalization = showing('localization', (run) => call(run, api.getLocalizationSettings, NOTHING))
export const getModManager = showing('mod-manager', (run) => call(run, api.getModManagerSettings, NOTHING))
export const uploadLimit = showing('upload-limit', (run) => call(run, api.getUploadLimit, NOTHING))

export const showLocale: Action = async (run) => {
  const client = await run.client({ needsToken: false })
  await showGroup(run, 'locale', await client.call(api.getLocale))
}

export const publicSettings: Action = async (run) => {
  const client = await run.client({ needsToken: false })
  await showGroup(run, 'public', await client.call(api.getPublicSettings))
}

interface SettingRow {
  readonly id: string
  readonly name: string
  readonly group: string
  readonly setting: string
  readonly value: unknown
  readonly fixed: string | null
}

const SETTINGS = view<SettingRow>([
  column('GROUP', (row) => row.group),
  column('SETTING', (row) => flagName(row.setting)),
  column('VALUE', (row) => cellOf(row.value)),
  column('FIXED', (row) => row.fixed),
])

export const listSettings: Action = async (run) => {
  const groups: [string, Group & { readonly locked: Readonly<Record<string, string>> }][] = [
    ['security', await call(run, getSecuritySettings, NOTHING)],
    ['smtp', await call(run, getSmtpSettings, NOTHING)],
    ['theme', await call(run, getThemeSettings, NOTHING)],
    ['localization', await call(run, api.getLocalizationSettings, NOTHING)],
    ['mod-manager', await call(run, api.getModManagerSettings, NOTHING)],
    ['oidc', flattened(await call(run, getOidcConfig, NOTHING))],
  ]
  const rows = groups.flatMap(([group, { locked, ...values }]) =>
    Object.entries(values)
      .filter(([setting]) => !NOT_SET.has(setting))
      .map(([setting, value]) => {
        const id = `${group}.${setting}`
        return { id, name: id, group, setting, value, fixed: locked[setting] ?? null }
      }),
  )
  await run.out.list(rows, SETTINGS)
}

/** The settings of each provider under names such as `whmcs.clientId`, as `locked` names them. */
function flattened({ locked, ...providers }: OidcConfig) {
  const fields = Object.entries(providers).flatMap(([id, { source: _, ...values }]) =>
    Object.entries(values).map(([field, value]) => [`${id}.${field}`, value] as const),
  )
  return { ...Object.fromEntries(fields), locked }
}

/** Fields of the answers that nobody sets. */
const NOT_SET: ReadonlySet<string> = new Set([
  'id',
  'createdAt',
  'updatedAt',
  'language',
  'availableLocales',
  'fallbackLocale',
])

const TEST: View<SmtpTestResult> = {
  id: (row) => row.to,
  name: (row) => row.to,
  columns: [
    column('OK', (row) => row.ok),
    column('TO', (row) => row.to),
    column('CODE', (row) => row.code),
    column('ERROR', (row) => row.error),
  ],
}

export const testSmtp: Action = async (run) => {
  const result = await call(run, testSmtpSettings, { params: {}, body: await fieldsOf(run) })
  await run.out.item(result, TEST)
  return result.ok ? 0 : CLI_FAILURES.OPERATION_FAILED
}

function showing(name: string, get: (run: Run) => Promise<Group>): Action {
  return async (run) => showGroup(run, name, await get(run))
}

/** The values of an object at any depth, with the names that lead to each; lists are values. */
function leavesOf(group: Group): [path: readonly string[], value: unknown][] {
  return Object.entries(group).flatMap(([field, value]): [readonly string[], unknown][] => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return [[[field], value]]
    return leavesOf({ ...value }).map(([path, below]) => [[field, ...path], below])
  })
}

function fixedList(locked: unknown): string {
  const entries = Object.entries(Object(locked))
  return entries.map(([field, source]) => `${flagName(field)} (${String(source)})`).join(', ')
}
