import { z } from 'zod'
import type { Db, Tx } from './db.ts'

/** What administrators can change while the daemon runs, by key, with shape and default. */
export const SETTINGS = {
  'panel.name': z.string().default('panel'),
  'panel.locale': z.string().default('en'),
  /** Set once, in the transaction that makes the first administrator. */
  'setup.completedAt': z.string().nullable().default(null),
  /** Names this installation in event ids; made with the database. */
  'install.epoch': z.string().default(''),
  /** Whether strangers may make accounts for themselves. */
  'security.registrationEnabled': z.boolean().default(false),
  'security.lockoutMaxAttempts': z.int().default(5),
  'security.lockoutWindowMinutes': z.int().default(15),
  'security.lockoutDurationMinutes': z.int().default(15),
  /** Failed sign-ins of one address, whatever the accounts, in one window. */
  'security.addressMaxAttempts': z.int().default(20),
  /** The most that one upload may have, whatever it is for. */
  'limits.fileTunnelMaxUploadMb': z.int().default(100),
  'limits.consoleCommandsPerMinute': z.int().default(600),
  'limits.requestsPerMinute': z.int().default(3000),
  'limits.authRequestsPerMinute': z.int().default(300),
  'limits.streamsPerServer': z.int().default(200),
  'limits.streamsPerUser': z.int().default(50),
  'console.logMb': z.int().default(64),
} as const satisfies Record<string, z.ZodType>

/** A key of {@link SETTINGS}. */
export type SettingKey = keyof typeof SETTINGS

/** The value of a setting. */
export type SettingValue<K extends SettingKey> = z.output<(typeof SETTINGS)[K]>

/** Settings in memory, read once and kept in step with their table. */
export interface Settings {
  get<K extends SettingKey>(key: K): SettingValue<K>
  /** Writes it; `get` answers the new value after the commit. */
  set<K extends SettingKey>(tx: Tx, key: K, value: SettingValue<K>): Promise<void>
  /** Calls back after each commit that has changed a setting, until the returned function is called. */
  onChange(listener: (key: SettingKey) => void): () => void
}

/** Reads all settings. `fixed` are values that file or environment decide: they win over the table. */
export async function openSettings(
  db: Db,
  fixed: Partial<{ [K in SettingKey]: SettingValue<K> }> = {},
): Promise<Settings> {
  const rows = await db.read.selectFrom('setting').selectAll().execute()
  const stored = new Map(rows.map((row) => [row.key, JSON.parse(row.value) as unknown])) // checked by the schema at each read
  const values = new Map<string, unknown>()
  const listeners = new Set<(key: SettingKey) => void>()
  for (const [key, schema] of Object.entries(SETTINGS)) {
    const value = Object.hasOwn(fixed, key) ? Reflect.get(fixed, key) : stored.get(key)
    values.set(key, schema.parse(value))
  }
  return {
    get: <K extends SettingKey>(key: K) => values.get(key) as SettingValue<K>, // parsed by that key's schema above or in set
    set: async (tx, key, value) => {
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
