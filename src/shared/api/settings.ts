import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { LocaleTag, TimeZone } from '../kernel/setting-values.ts'
import { PublicTheme } from './theme-settings.ts'

const locale = {
  locale: z.string(),
  /** The same under the name that other clients know. */
  language: z.string(),
  /** The languages that the panel's own texts exist in. */
  availableLocales: z.array(z.string()),
}

export const getLocale = defineEndpoint({
  id: 'settings.locale',
  tag: 'Settings',
  summary: 'Show the language of this installation',
  method: 'GET',
  path: '/api/settings/locale',
  access: 'public',
  response: z.object(locale),
})

export const getPublicSettings = defineEndpoint({
  id: 'settings.public',
  tag: 'Settings',
  summary: 'Show what a client needs before sign-in: theme, language, whether the set-up is still to be done',
  method: 'GET',
  path: '/api/settings/public',
  access: 'public',
  response: PublicTheme.extend({
    ...locale,
    timezone: z.string(),
    registrationEnabled: z.boolean(),
    setupRequired: z.boolean(),
  }),
  cached: true,
})

/** The language and the time zone of this installation. */
export const LocalizationSettings = z.object({
  ...locale,
  fallbackLocale: z.string(),
  timezone: z.string(),
  locked: Locked,
})
export type LocalizationSettings = z.infer<typeof LocalizationSettings>

export const getLocalizationSettings = defineEndpoint({
  id: 'settings.localization_get',
  tag: 'Admin',
  summary: 'Show language and time zone',
  method: 'GET',
  path: '/api/admin/localization-settings',
  access: { panel: 'admin.read' },
  response: LocalizationSettings,
})

export const updateLocalizationSettings = defineEndpoint({
  id: 'settings.localization_update',
  tag: 'Admin',
  summary: 'Change language or time zone; what is not named stays',
  method: 'PUT',
  path: '/api/admin/localization-settings',
  access: { panel: 'admin.write' },
  body: z.object({
    locale: LocaleTag.optional(),
    /** The same as `locale`; of the two the one that differs from the present language counts. */
    language: LocaleTag.optional(),
    timezone: TimeZone.optional(),
  }),
  ignores: ['availableLocales', 'fallbackLocale', 'locked'],
  response: LocalizationSettings,
  errors: ['SETTING_LOCKED'],
  audit: { action: 'settings.localization_update', resource: 'system' },
})

/** The keys for the catalogues of mods and plug-ins: the mask or `null`, never a key. */
export const ModManagerSettings = z.object({
  curseforgeApiKey: z.string().nullable(),
  modrinthApiKey: z.string().nullable(),
  locked: Locked,
})
export type ModManagerSettings = z.infer<typeof ModManagerSettings>

const CatalogueKey = z
  .string()
  .max(512)
  .regex(/^[\x21-\x7e]+$/, 'must be printable ASCII without blanks')
  .nullable()

export const getModManagerSettings = defineEndpoint({
  id: 'settings.mod_manager_get',
  tag: 'Admin',
  summary: 'Show which catalogue keys are set',
  method: 'GET',
  path: '/api/admin/mod-manager',
  access: { panel: 'admin.read' },
  response: ModManagerSettings,
})

export const updateModManagerSettings = defineEndpoint({
  id: 'settings.mod_manager_update',
  tag: 'Admin',
  summary: 'Set or remove catalogue keys',
  method: 'PUT',
  path: '/api/admin/mod-manager',
  access: { panel: 'admin.write' },
  /** `********` keeps the stored one, `null` removes it. */
  body: z.object({ curseforgeApiKey: CatalogueKey, modrinthApiKey: CatalogueKey }).partial(),
  ignores: ['locked'],
  response: ModManagerSettings,
  errors: ['SETTING_LOCKED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { action: 'settings.mod_manager_update', resource: 'system' },
})

export const getUploadLimit = defineEndpoint({
  id: 'settings.upload_limit',
  tag: 'Admin',
  summary: 'Show how large an upload may be',
  method: 'GET',
  path: '/api/admin/settings/file-tunnel-upload-limit',
  access: 'session',
  /** The same limit under each of the names that clients read. */
  response: z.object({
    maxUploadMb: z.int(),
    maxUploadBytes: z.int(),
    fileTunnelMaxUploadMb: z.int(),
    limitMb: z.int(),
  }),
})
