import * as api from '../../../../shared/api/settings.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import type { Settings } from '../../../core/settings.ts'
import { type Route, route } from '../../../http/route.ts'
import { isSetupRequired } from '../../accounts/auth/setup-state.ts'
import { changeGroup, type GroupDeps, groupView, type SettingGroup } from './group.ts'
import { securityRoutes } from './security.ts'
import { type SmtpDeps, smtpRoutes } from './smtp.ts'
import { publicTheme, type ThemeDeps, themeRoutes } from './theme.ts'
import { uploadLimitBytes } from './upload-limit.ts'

const LOCALIZATION_FIELDS = { locale: 'panel.locale', timezone: 'panel.timezone' } as const
const LOCALIZATION: SettingGroup<typeof LOCALIZATION_FIELDS> = {
  name: 'localization',
  action: 'settings.localization_update',
  event: 'localization_settings_updated',
  fields: LOCALIZATION_FIELDS,
}

const MOD_MANAGER_FIELDS = {
  curseforgeApiKey: 'modManager.curseforgeApiKey',
  modrinthApiKey: 'modManager.modrinthApiKey',
} as const
const MOD_MANAGER: SettingGroup<typeof MOD_MANAGER_FIELDS> = {
  name: 'mod-manager',
  action: 'settings.mod_manager_update',
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
      ...localeOf(deps.settings),
      timezone: deps.settings.get('panel.timezone'),
      registrationEnabled: deps.settings.get('security.registrationEnabled'),
      setupRequired: await isSetupRequired(deps.db.read, deps.settings),
    })),
  ]
}

function localizationRoutes(deps: GroupDeps): Route[] {
  const shown = () => {
    const view = groupView(deps, LOCALIZATION)
    return { ...view, ...localeOf(deps.settings), fallbackLocale: OWN_LOCALE }
  }
  return [
    route(api.getLocale, async () => localeOf(deps.settings)),
    route(api.getLocalizationSettings, async () => shown()),
    route(api.updateLocalizationSettings, async ({ body }, { actor }) => {
      const given = { locale: chosenLocale(deps.settings, body), timezone: body.timezone }
      await changeGroup(deps, LOCALIZATION, { given, actor })
      return shown()
    }),
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
    route(api.updateModManagerSettings, async ({ body }, { actor }) => {
      await changeGroup(deps, MOD_MANAGER, { given: body, actor })
      return groupView(deps, MOD_MANAGER)
    }),
  ]
}

function localeOf(settings: Settings) {
  const locale = settings.get('panel.locale')
  return { locale, language: locale, availableLocales: [OWN_LOCALE] }
}
