import { z } from 'zod'
import {
  getPublicTheme,
  getThemeSettings,
  type PublicTheme,
  updateThemeSettings,
} from '../../../../shared/api/theme-settings.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { Colour } from '../../../../shared/kernel/setting-values.ts'
import { mergeMetadata, metadataProblem } from '../../../../shared/kernel/theme-metadata.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import { type Route, route } from '../../../http/route.ts'
import { changeGroup, type GroupDeps, type GroupValues, groupView, type SettingGroup } from './group.ts'

/** What the theme needs beside what every group does. */
export interface ThemeDeps extends GroupDeps {
  readonly clock: Clock
  /** Which identity providers people can sign in by now. */
  readonly authProviders: () => Promise<PublicTheme['authProviders']>
}

const FIELDS = {
  panelName: 'panel.name',
  logoUrl: 'theme.logoUrl',
  faviconUrl: 'theme.faviconUrl',
  defaultTheme: 'theme.defaultTheme',
  enabledThemes: 'theme.enabledThemes',
  customCss: 'theme.customCss',
  primaryColor: 'theme.primaryColor',
  secondaryColor: 'theme.secondaryColor',
  accentColor: 'theme.accentColor',
  metadata: 'theme.metadata',
} as const

const THEME: SettingGroup<typeof FIELDS> = {
  name: 'theme',
  action: 'settings.theme_update',
  event: 'theme_settings_updated',
  fields: FIELDS,
}

/** The theme, for everybody and for administrators. */
export function themeRoutes(deps: ThemeDeps): Route[] {
  return [
    route(getPublicTheme, () => publicTheme(deps)),
    route(getThemeSettings, () => theme(deps)),
    route(updateThemeSettings, async ({ body }, { actor }) => {
      await changeGroup(deps, THEME, { given: body, actor }, { check: refuseDisabledDefault, combine })
      return theme(deps)
    }),
  ]
}

/** What a page needs before anybody has signed in. */
export async function publicTheme(deps: ThemeDeps): Promise<PublicTheme> {
  const { metadata, locked: _, ...shown } = groupView(deps, THEME)
  const colours = ThemeColours.safeParse(metadata['themeColors'])
  return { ...shown, authProviders: await deps.authProviders(), themeColors: colours.success ? colours.data : null }
}

const ThemeColours = z.record(z.string(), Colour)
/** Rows of settings that a fresh database has, and never loses. */
const FIRST_ROW = 'install.epoch'

async function theme(deps: ThemeDeps) {
  const rows = await deps.db.read
    .selectFrom('setting')
    .select(['key', 'updatedAt'])
    .where('key', 'in', [...Object.values(FIELDS), FIRST_ROW])
    .orderBy('updatedAt')
    .execute()
  const createdAt = rows.find(({ key }) => key === FIRST_ROW)?.updatedAt ?? now(deps.clock)
  const updatedAt = rows.at(-1)?.updatedAt ?? createdAt
  return { id: 'theme' as const, ...groupView(deps, THEME), createdAt, updatedAt }
}

function refuseDisabledDefault({ defaultTheme, enabledThemes }: GroupValues<typeof FIELDS>): void {
  if (defaultTheme === 'system' || enabledThemes.includes(defaultTheme)) return
  throw fieldError('body.defaultTheme', 'must be one of the enabled themes, or system')
}

function combine(field: string, before: unknown, given: unknown): unknown {
  if (field !== 'metadata') return given
  const merged = mergeMetadata(Metadata.parse(before), Metadata.parse(given))
  const problem = metadataProblem(merged)
  if (problem !== undefined) throw fieldError('body.metadata', `${problem} together with what is there`)
  return merged
}

const Metadata = z.record(z.string(), z.unknown())
