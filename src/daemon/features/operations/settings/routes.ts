import * as securityApi from '../../../../shared/api/security-settings.ts'
import * as api from '../../../../shared/api/settings.ts'
import * as smtpApi from '../../../../shared/api/smtp-settings.ts'
import * as themeApi from '../../../../shared/api/theme-settings.ts'
import { settingsThrough } from '../../../core/settings.ts'
import { operate } from '../../../http/operate.ts'
import { cachedRoute, type Route, route } from '../../../http/route.ts'
import { isSetupRequired } from '../../accounts/auth/setup-state.ts'
import { localeOf, localizationSettings, updateLocalizationSettings } from './localization.ts'
import { modManagerSettings, updateModManagerSettings } from './mod-manager.ts'
import { securitySettings, updateSecuritySettings } from './security.ts'
import { type SmtpDeps, smtpSettings, testSmtpSettings, updateSmtpSettings } from './smtp.ts'
import { publicTheme, type ThemeDeps, themeSettings, updateThemeSettings } from './theme.ts'
import { uploadLimitBytes } from './upload-limit.ts'

/** The settings of the installation: groups, and what of them everybody may see. */
export function settingsRoutes(deps: SmtpDeps & ThemeDeps): Route[] {
  return [...groupRoutes(deps), ...publicRoutes(deps)]
}

function groupRoutes(deps: SmtpDeps & ThemeDeps): Route[] {
  return [
    route(securityApi.getSecuritySettings, async () => securitySettings(deps)),
    operate(updateSecuritySettings, deps),
    route(smtpApi.getSmtpSettings, async () => smtpSettings(deps)),
    operate(updateSmtpSettings, deps),
    route(smtpApi.testSmtpSettings, (input, context) => testSmtpSettings(deps, input, context)),
    route(themeApi.getThemeSettings, () => themeSettings(deps)),
    operate(updateThemeSettings, deps),
    route(api.getLocalizationSettings, async () => localizationSettings(deps)),
    operate(updateLocalizationSettings, deps),
    route(api.getModManagerSettings, async () => modManagerSettings(deps)),
    operate(updateModManagerSettings, deps),
  ]
}

function publicRoutes(deps: ThemeDeps): Route[] {
  const { db, settings } = deps
  return [
    route(themeApi.getPublicTheme, () => publicTheme(deps, db.read)),
    route(api.getLocale, async () => localeOf(settings.get('panel.locale'))),
    route(api.getUploadLimit, async () => {
      const mb = settings.get('files.maxUploadMb')
      return { maxUploadMb: mb, maxUploadBytes: uploadLimitBytes(settings), fileTunnelMaxUploadMb: mb, limitMb: mb }
    }),
    cachedRoute(api.getPublicSettings, async (_, { at, live }) => {
      const seen = settingsThrough(settings, live)
      return {
        ...(await publicTheme({ ...deps, settings: seen }, at.q)),
        ...localeOf(seen.get('panel.locale')),
        timezone: seen.get('panel.timezone'),
        registrationEnabled: seen.get('security.registrationEnabled'),
        setupRequired: await isSetupRequired(at.q, seen),
      }
    }),
  ]
}
