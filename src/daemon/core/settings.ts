import { z } from 'zod'
import { PanelError } from '../../shared/kernel/errors.ts'
import { SECURITY_NUMBERS, type SecurityField } from '../../shared/kernel/security-numbers.ts'
import {
  ClientId,
  Colour,
  CronLine,
  DiscoveryUrl,
  HostName,
  LocaleTag,
  OneLine,
  PictureUrl,
  Sender,
  THEME_DEFAULTS,
  ThemeName,
  TimeZone,
} from '../../shared/kernel/setting-values.ts'
import type { Db, Tx } from '../db/db.ts'
import { CRON_LINE, isCronLine } from './cron.ts'

/** A number of the security settings with its default and bounds. */
const int = (field: SecurityField) => {
  const { min, max, default: value } = SECURITY_NUMBERS[field]
  return z.int().min(min).max(max).default(value)
}

/** A value that may be absent, and is so at first. */
const optional = <T extends z.ZodType>(schema: T) => schema.nullable().default(null)

/**
 * What administrators can change while the daemon runs, by key, with shape and default. The configuration file and the
 * environment can fix each but those of `setup` and `install`.
 */
export const SETTINGS = {
  'panel.name': z.string().trim().min(1).max(50).default(THEME_DEFAULTS.panelName),
  'panel.locale': LocaleTag.default('en'),
  'panel.timezone': TimeZone.default('UTC'),
  /** Set once, in the transaction that makes the first administrator. */
  'setup.completedAt': z.string().nullable().default(null),
  /** Names this installation in event ids; made with the database. */
  'install.epoch': z.string().default(''),
  /** Whether strangers may make accounts for themselves. */
  'security.registrationEnabled': z.boolean().default(false),
  /** The version of the daemon that ran last; '' before the first start that writes it. */
  'install.version': z.string().default(''),
  /** The names of the starter templates that this installation has been given. */
  'install.starters': z.array(z.string()).default([]),
  /** What the files of the starter templates were when they were looked at last. */
  'install.startersDigest': z.string().default(''),
  /** Which templates were made of which of the program's (by its name), with a digest of how each was then. */
  'install.catalog': z.array(z.object({ name: z.string(), templateId: z.string(), digest: z.string() })).default([]),
  /** What the one who set the mail server last may give; `null` before anybody has. */
  'install.mailVouched': z.array(z.string()).nullable().default(null),
  /** The credential key for scheduled backups of the panel, sealed by a passphrase; `null`: it is no part of them. */
  'install.selfBackupKey': optional(
    z.object({
      key: z.object({ kdf: z.literal('scrypt-131072-8-1'), salt: z.string(), sealed: z.string() }),
      fingerprint: z.string(),
    }),
  ),
  'security.lockoutMaxAttempts': int('lockoutMaxAttempts'),
  'security.lockoutWindowMinutes': int('lockoutWindowMinutes'),
  'security.lockoutDurationMinutes': int('lockoutDurationMinutes'),
  /** Failed sign-ins of one address, whatever the accounts, in one window. */
  'security.addressMaxAttempts': int('addressMaxAttempts'),
  'limits.consoleCommandsPerMinute': int('consoleRateLimitMax'),
  'limits.requestsPerMinute': int('requestRateLimitMax'),
  'limits.authRequestsPerMinute': int('authRateLimitMax'),
  'limits.fileRequestsPerMinute': int('fileRateLimitMax'),
  'limits.transferRequestsPerMinute': int('fileTunnelRateLimitMax'),
  'limits.agentFramesPerSecond': int('agentMessageMax'),
  'limits.agentMetricsPerMinute': int('agentMetricsMax'),
  'limits.serverMetricsPerMinute': int('serverMetricsMax'),
  'limits.streamsPerServer': int('streamsPerServerMax'),
  'limits.streamsPerUser': int('streamsPerUserMax'),
  /** Whether suspended servers may be deleted; only the configuration file and the environment say so. */
  'suspension.deletePolicy': z.enum(['block', 'allow']).default('block'),
  'console.logMb': int('consoleLogMb'),
  'console.bufferMb': int('maxBufferMb'),
  'console.outputLinesPerSecond': int('consoleOutputLinesMax'),
  'console.outputBytesPerSecond': int('consoleOutputByteLimitBytes'),
  'audit.retentionDays': int('auditRetentionDays'),
  'files.maxUploadMb': int('fileTunnelMaxUploadMb'),
  /** The largest file that is written into a server's folder; only the configuration file and the environment say so. */
  'files.maxFileMb': z.int().min(1).max(1_048_576).default(10_240),
  'files.transfersPerNode': int('fileTunnelConcurrentMax'),
  'files.waitingTransfersPerNode': int('fileTunnelMaxPendingPerNode'),
  /** The id or the name of the store of backups for which nothing else says where they go; without one: `local`. */
  'backups.defaultStore': optional(OneLine.trim().min(1).max(100)),
  /** When the panel backs itself up; five fields of cron. */
  'selfBackup.cron': optional(CronLine.refine((line) => isCronLine(line), CRON_LINE)),
  /** The id or the name of the store of these backups; without one the default store. */
  'selfBackup.store': optional(OneLine.trim().min(1).max(100)),
  'selfBackup.keep': z.int().min(1).max(1000).default(14),
  'smtp.host': optional(HostName),
  'smtp.port': optional(z.int().min(1).max(65_535)),
  'smtp.username': optional(OneLine.min(1).max(254)),
  'smtp.password': optional(z.string().min(1)),
  'smtp.from': optional(Sender),
  'smtp.replyTo': optional(Sender),
  'smtp.secure': optional(z.boolean()),
  'smtp.requireTls': optional(z.boolean()),
  'smtp.pool': optional(z.boolean()),
  'smtp.maxConnections': optional(z.int().min(1).max(100)),
  'smtp.maxMessages': optional(z.int().min(1).max(10_000)),
  'theme.logoUrl': optional(PictureUrl),
  'theme.faviconUrl': optional(PictureUrl),
  'theme.defaultTheme': ThemeName.default(THEME_DEFAULTS.defaultTheme),
  'theme.enabledThemes': z
    .array(ThemeName.exclude(['system']))
    .min(1)
    .max(2)
    .default([...THEME_DEFAULTS.enabledThemes]),
  'theme.customCss': optional(z.string().max(100_000)),
  'theme.primaryColor': Colour.default(THEME_DEFAULTS.primaryColor),
  'theme.secondaryColor': Colour.default(THEME_DEFAULTS.secondaryColor),
  'theme.accentColor': Colour.default(THEME_DEFAULTS.accentColor),
  'theme.metadata': z.record(z.string(), z.json()).default({}),
  'modManager.curseforgeApiKey': optional(z.string().min(1)),
  'modManager.modrinthApiKey': optional(z.string().min(1)),
  /** Only to be fixed by file or environment: what administrators set stands in the table of providers. */
  'oidc.whmcsClientId': optional(ClientId),
  'oidc.whmcsClientSecret': optional(z.string().min(1).max(1024)),
  'oidc.whmcsDiscoveryUrl': optional(DiscoveryUrl),
  'oidc.paymenterClientId': optional(ClientId),
  'oidc.paymenterClientSecret': optional(z.string().min(1).max(1024)),
  'oidc.paymenterDiscoveryUrl': optional(DiscoveryUrl),
  /** Private ranges that webhooks may reach all the same; by file or environment only, so that no request can open them. */
  'webhooks.allowedRanges': z
    .array(z.union([z.cidrv4(), z.cidrv6()]))
    .max(50)
    .default([]),
} as const satisfies Record<string, z.ZodType>

/** Keys whose values are secret: sealed by the vault in the table, in clear where file or environment fix them. */
export const SECRET_SETTINGS = [
  'smtp.password',
  'modManager.curseforgeApiKey',
  'modManager.modrinthApiKey',
  'oidc.whmcsClientSecret',
  'oidc.paymenterClientSecret',
] as const
export type SecretSettingKey = (typeof SECRET_SETTINGS)[number]

/** A key of {@link SETTINGS}. */
export type SettingKey = keyof typeof SETTINGS

/** The value of a setting. */
export type SettingValue<K extends SettingKey> = z.output<(typeof SETTINGS)[K]>

/** A value that file or environment decide, and where: the name of the variable, or `section.name` of the file. */
export interface FixedSetting {
  readonly value: unknown
  readonly source: 'env' | 'file'
  readonly name: string
}

/** Settings in memory, read once and kept in step with their table. */
export interface Settings {
  get<K extends SettingKey>(key: K): SettingValue<K>
  /** The value as this transaction sees it, also when another one of the same commit has just changed it. */
  read<K extends SettingKey>(tx: Tx, key: K): Promise<SettingValue<K>>
  /** Writes it; `get` answers the new value after the commit. Fails with SETTING_LOCKED when it is fixed. */
  set<K extends SettingKey>(tx: Tx, key: K, value: SettingValue<K>): Promise<void>
  /** Calls back after each commit that has changed a setting, until the returned function is called. */
  onChange(listener: (key: SettingKey) => void): () => void
  /** What decides this setting in place of the table. */
  fixed(key: SettingKey): FixedSetting | undefined
}

/** The same settings, each looked at through `live` ({@link Settings.get} of a cached answer). */
export function settingsThrough(settings: Settings, live: <T>(look: () => T) => T): Settings {
  return { ...settings, get: (key) => live(() => settings.get(key)) }
}

/** Reads all settings. `fixed` are values that file or environment decide: they win over the table. */
export async function openSettings(db: Db, fixed: Readonly<Record<string, FixedSetting>> = {}): Promise<Settings> {
  const rows = await db.read.selectFrom('setting').selectAll().execute()
  const stored = new Map(rows.map((row) => [row.key, JSON.parse(row.value) as unknown])) // checked by the schema at each read
  const fixedBy = new Map(Object.entries(fixed))
  const values = new Map<string, unknown>()
  const listeners = new Set<(key: SettingKey) => void>()
  for (const [key, schema] of Object.entries(SETTINGS)) {
    const value = fixedBy.has(key) ? fixedBy.get(key)?.value : stored.get(key)
    if (value !== undefined) values.set(key, schema.parse(value))
  }
  const get = <K extends SettingKey>(key: K) => {
    // What nobody has set is what its schema says: most of them are read long after the start.
    if (!values.has(key)) values.set(key, SETTINGS[key].parse(undefined))
    return values.get(key) as SettingValue<K> // parsed by that key's schema, here, above or in set
  }
  return {
    get,
    fixed: (key) => fixedBy.get(key),
    read: async (tx, key) => {
      if (fixedBy.has(key)) return get(key)
      const row = await tx.q.selectFrom('setting').select('value').where('key', '=', key).executeTakeFirst()
      const schema: z.ZodType = SETTINGS[key]
      return schema.parse(row === undefined ? undefined : JSON.parse(row.value)) as SettingValue<typeof key> // by its own schema
    },
    set: async (tx, key, value) => {
      const by = fixedBy.get(key)
      if (by !== undefined) throw settingLocked(key, by)
      const parsed = SETTINGS[key].parse(value)
      const row = { key, value: JSON.stringify(parsed), updatedAt: tx.now }
      await tx.q
        .insertInto('setting')
        .values(row)
        .onConflict((conflict) => conflict.column('key').doUpdateSet({ value: row.value, updatedAt: row.updatedAt }))
        .execute()
      tx.onCommit(() => {
        values.set(key, parsed)
        for (const listener of listeners) listener(key)
      })
    },
    onChange: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

/** The refusal of a write to a fixed setting; `name` in meta says what to change instead. */
export function settingLocked(what: string, { source, name }: FixedSetting): PanelError {
  const place = source === 'env' ? `the environment variable ${name}` : `${name} in the configuration file`
  return new PanelError('SETTING_LOCKED', `${what} is decided by ${place}; change it there and restart the daemon`, {
    meta: { source, name },
  })
}
