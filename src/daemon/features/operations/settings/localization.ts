import * as api from '../../../../shared/api/settings.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import { changeGroup, type GroupDeps, type GroupView, groupView, type SettingGroup } from './group.ts'

const LOCALIZATION_FIELDS = { locale: 'panel.locale', timezone: 'panel.timezone' } as const
const LOCALIZATION: SettingGroup<typeof LOCALIZATION_FIELDS> = {
  name: 'localization',
  event: 'localization_settings_updated',
  fields: LOCALIZATION_FIELDS,
}

/** The language of the daemon's own texts. */
const OWN_LOCALE = 'en'

export const updateLocalizationSettings = operationsOver<GroupDeps>()(
  api.updateLocalizationSettings,
  async (work, { body }) => {
    const given = { locale: chosenLocale(work.deps.settings, body), timezone: body.timezone }
    const { view, done } = await changeGroup(work, LOCALIZATION, { given })
    return { ...done, answer: localization(view) }
  },
)

/** Language and time zone as they are answered. */
export function localizationSettings(deps: Pick<GroupDeps, 'settings'>) {
  return localization(groupView(deps, LOCALIZATION))
}

/** A language under both of its names, and which there are. */
export function localeOf(locale: string) {
  return { locale, language: locale, availableLocales: [OWN_LOCALE] }
}

function localization(view: GroupView<typeof LOCALIZATION_FIELDS>) {
  return { ...view, ...localeOf(view.locale), fallbackLocale: OWN_LOCALE }
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
