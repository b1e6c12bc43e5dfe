import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { Colour, PictureUrl, ThemeName } from '../kernel/setting-values.ts'
import { metadataProblem } from '../kernel/theme-metadata.ts'
import { IsoTime } from '../kernel/time.ts'

/** The colours of a page by name, as far as `metadata.themeColors` names any. */
const ThemeColors = z.record(z.string(), z.string())

/** What a page needs of the theme before anybody has signed in. */
export const PublicTheme = z.object({
  panelName: z.string(),
  logoUrl: z.string().nullable(),
  faviconUrl: z.string().nullable(),
  defaultTheme: ThemeName,
  enabledThemes: z.array(z.string()),
  primaryColor: z.string(),
  secondaryColor: z.string(),
  accentColor: z.string(),
  /** Which identity providers people can sign in by. */
  authProviders: z.object({ whmcs: z.boolean(), paymenter: z.boolean() }),
  themeColors: ThemeColors.nullable(),
  customCss: z.string().nullable(),
})
export type PublicTheme = z.infer<typeof PublicTheme>

/** The theme as administrators see it. */
export const Theme = PublicTheme.omit({ authProviders: true, themeColors: true }).extend({
  id: z.literal('theme'),
  metadata: z.record(z.string(), z.unknown()),
  createdAt: IsoTime,
  updatedAt: IsoTime,
  locked: Locked,
})
export type Theme = z.infer<typeof Theme>

export const getPublicTheme = defineEndpoint({
  id: 'settings.theme_public',
  tag: 'Settings',
  summary: 'Show what a page needs of the theme before sign-in',
  method: 'GET',
  path: '/api/theme-settings/public',
  access: 'public',
  response: PublicTheme,
})

export const getThemeSettings = defineEndpoint({
  id: 'settings.theme_get',
  tag: 'Admin',
  summary: 'Show the theme',
  method: 'GET',
  path: '/api/admin/theme-settings',
  access: { panel: 'admin.read' },
  response: Theme,
})

/** Free data for pages; a change is merged into what is there, `null` removes a key. */
const Metadata = z.record(z.string().min(1).max(64), z.unknown()).superRefine((value, context) => {
  const message = metadataProblem(value)
  if (message !== undefined) context.addIssue({ code: 'custom', message })
})

export const updateThemeSettings = defineEndpoint({
  id: 'settings.theme_update',
  tag: 'Admin',
  summary: 'Change the theme; what is not named stays, metadata is merged',
  method: 'PATCH',
  path: '/api/admin/theme-settings',
  access: { panel: 'admin.write' },
  body: z
    .object({
      panelName: z.string().trim().min(1).max(50),
      logoUrl: PictureUrl.nullable(),
      faviconUrl: PictureUrl.nullable(),
      defaultTheme: ThemeName,
      enabledThemes: z
        .array(ThemeName.exclude(['system']))
        .min(1)
        .max(2)
        .refine((names) => new Set(names).size === names.length, 'must not name a theme twice'),
      customCss: z.string().max(100_000).nullable(),
      primaryColor: Colour,
      secondaryColor: Colour,
      accentColor: Colour,
      metadata: Metadata,
    })
    .partial(),
  ignores: ['id', 'createdAt', 'updatedAt', 'locked'],
  response: Theme,
  errors: ['SETTING_LOCKED'],
  audit: { action: 'settings.theme_update', resource: 'system' },
})
