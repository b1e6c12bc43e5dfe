import { z } from 'zod'
import * as api from '../../../../shared/api/theme-settings.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { Colour } from '../../../../shared/kernel/setting-values.ts'
import { mergeMetadata, metadataProblem } from '../../../../shared/kernel/theme-metadata.ts'
import { type Clock, now } from '../../../../shared/kernel/time.ts'
import { operationsOver } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'
import { changeGroup, type GroupDeps, type GroupValues, type GroupView, groupView, type SettingGroup } from './group.ts'

/** What the theme needs beside what every group does. */
export interface ThemeDeps extends GroupDeps {
  readonly clock: Clock
  /** Which identity providers people can sign in by now. */
  readonly authProviders: (q: Queries, settings: Settings) => Promise<api.PublicTheme['authProviders']>
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
  event: 'theme_settings_updated',
  fields: FIELDS,
}

export const updateThemeSettings = operationsOver<ThemeDeps>()(api.updateThemeSettings, async (work, { body }) => {
  const rules = { check: refuseDisabledDefault, combine }
  const { view, done } = await changeGroup(work, THEME, { given: body, rules })
  return { ...done, answer: await theme(work.deps, work.tx.q, view) }
})

/** The theme as administrators see it. */
export function themeSettings(deps: ThemeDeps) {
  return theme(deps, deps.db.read, groupView(deps, THEME))
}

/** What a page needs before anybody has signed in. */
export async function publicTheme(
  { settings, authProviders }: Pick<ThemeDeps, 'settings' | 'authProviders'>,
  q: Queries,
): Promise<api.PublicTheme> {
  const { metadata, locked: _, ...shown } = groupView({ settings }, THEME)
  const colours = ThemeColours.safeParse(metadata['themeColors'])
  return {
    ...shown,
    authProviders: await authProviders(q, settings),
    themeColors: colours.success ? colours.data : null,
  }
}

const ThemeColours = z.record(z.string(), Colour)
/** Rows of settings that a fresh database has, and never loses. */
const FIRST_ROW = 'install.epoch'

async function theme({ clock }: ThemeDeps, q: Queries, view: GroupView<typeof FIELDS>) {
  const rows = await q
    .selectFrom('setting')
    .select(['key', 'updatedAt'])
    .where('key', 'in', [...Object.values(FIELDS), FIRST_ROW])
    .orderBy('updatedAt')
    .execute()
  const createdAt = rows.find(({ key }) => key === FIRST_ROW)?.updatedAt ?? now(clock)
  const updatedAt = rows.at(-1)?.updatedAt ?? createdAt
  return { id: 'theme' as const, ...view, createdAt, updatedAt }
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
