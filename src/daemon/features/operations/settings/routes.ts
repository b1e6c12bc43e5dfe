import * as api from '../../../../shared/api/settings.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import { isSetupRequired } from '../../accounts/auth/setup-state.ts'
import { changeGroup, type GroupDeps, type GroupView, groupView, type SettingGroup } from './group.ts'
import { securityRoutes } from './security.ts'
import { type SmtpDeps, smtpRoutes } from './smtp.ts'
import { publicTheme, type ThemeDeps, themeRoutes } from './theme.ts'
import { uploadLimitBytes } from './upload-limit.ts'

const LOCALIZATION_FIELDS = { locale: 'panel.locale', timezone: 'panel.timezone' } as const
const LOCALIZATION: SettingGroup<typeof LOCALIZATION_FIELDS> = {
  name: 'localization',
  event: 'localization_settings_updated',
  fields: LOCALIZATION_FIELDS,
}

const MOD_MANAGER_FIELDS = {
  curseforgeApiKey: 'modManager.curseforgeApiKey',
  modrinthApiKey: 'modManager.modrinthApiKey',
} as const
const MOD_MANAGER: SettingGroup<typeof MOD_MANAGER_FIELDS> = {
  name: 'mod-manager',
  event: 'system_settings_updated',
  fields: MOD_MANAGER_FIELDS,
}

/** The language of the daemon's own texts. */
const OWN_LOCALE = 'en'

/** The settings of the installation. */
export function settingsRoutes(deps: SmtpDeps & ThemeDeps): Route[] {
  return [
    ...securityRoutes(deps),
    ...smtpRoutes(deps),
    ...themeRoutes(deps),
    ...localizationRoutes(deps),
    ...modManagerRoutes(deps),
    route(api.getUploadLimit, async () => {
      const mb = deps.settings.get('files.maxUploadMb')
      return {
        maxUploadMb: mb,
        maxUploadBytes: uploadLimitBytes(deps.settings),
        fileTunnelMaxUploadMb: mb,
        limitMb: mb,
      }
    }),
    route(api.getPublicSettings, async () => ({
      ...(await publicTheme(deps)),
      ...localeOf(deps.settings.get('panel.locale')),
      timezone: deps.settings.get('panel.timezone'),
      registrationEnabled: deps.settings.get('security.registrationEnabled'),
      setupRequired: await isSetupRequired(deps.db.read, deps.settings),
    })),
  ]
}

const operation = operationsOver<GroupDeps>()

export const updateLocalizationSettings = operation(api.updateLocalizationSettings, async (work, { body }) => {
  const given = { locale: chosenLocale(work.deps.settings, body), timezone: body.timezone }
  const { view, done } = await changeGroup(work, LOCALIZATION, { given })
  return { ...done, answer: localization(view) }
})

export const updateModManagerSettings = operation(api.updateModManagerSettings, async (work, { body }) => {
  const { view, done } = await changeGroup(work, MOD_MANAGER, { given: body })
  return { ...done, answer: view }
})

function localizationRoutes(deps: GroupDeps): Route[] {
  return [
    route(api.getLocale, async () => localeOf(deps.settings.get('panel.locale'))),
    route(api.getLocalizationSettings, async () => localization(groupView(deps, LOCALIZATION))),
    operate(updateLocalizationSettings, deps),
  ]
}

/** A client that sends back what it was given has changed one of the two names and left the other as it was. */
function chosenLocale(
  settings: Settings,
  { locale, language }: Input<typeof api.updateLocalizationSettings>['body'],
): string | undefined {
  if (locale === undefined || language === undefined || locale === language) return locale ?? language
  const present = settings.get('panel.locale')
  if (locale === present) return language
  if (language === present) return locale
  throw fieldError('body.language', 'is the same as locale: give one of them')
}

function modManagerRoutes(deps: GroupDeps): Route[] {
  return [
    route(api.getModManagerSettings, async () => groupView(deps, MOD_MANAGER)),
    operate(updateModManagerSettings, deps),
  ]
}

function localization(view: GroupView<typeof LOCALIZATION_FIELDS>) {
  return { ...view, ...localeOf(view.locale), fallbackLocale: OWN_LOCALE }
}

function localeOf(locale: string) {
  return { locale, language: locale, availableLocales: [OWN_LOCALE] }
}
