import { z } from 'zod'
import { fieldError, PanelError } from '../../../shared/kernel/errors.ts'
import type { Db, Queries } from '../../db/db.ts'
import { parseJson } from '../../db/json.ts'

/** What one plugin may keep. */
export const STORAGE_QUOTA = { bytes: 1024 * 1024, keys: 1000, valueBytes: 64 * 1024 } as const

const Key = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\p{Cc}]+$/u)
const Prefix = z.string().max(200)

/** The values that plugins keep in the database, each plugin its own. */
export interface PluginStorage {
  get(plugin: string, key: unknown): Promise<unknown>
  /** Fails with INSUFFICIENT_SPACE when the quota is used up. */
  set(plugin: string, key: unknown, value: unknown): Promise<void>
  delete(plugin: string, key: unknown): Promise<boolean>
  /** The keys that begin with the text, sorted. */
  list(plugin: string, prefix: unknown): Promise<string[]>
}

/** The storage over its table. */
export function createPluginStorage(db: Db): PluginStorage {
  return {
    get: async (plugin, key) => {
      const value = await storedValue(db.read, plugin, keyOf(key))
      return value === undefined ? null : parseJson(z.unknown(), value)
    },
    set: async (plugin, key, value) => {
      const name = keyOf(key)
      const text = JSON.stringify(value ?? null)
      const bytes = Buffer.byteLength(text) + Buffer.byteLength(name)
      if (bytes > STORAGE_QUOTA.valueBytes) throw full(`a value may have ${STORAGE_QUOTA.valueBytes} bytes`)
      if ((await storedValue(db.read, plugin, name)) === text) return
      await db.write(async (tx) => {
        const row = { pluginName: plugin, key: name, value: text, bytes, updatedAt: tx.now }
        await tx.q
          .insertInto('pluginStorage')
          .values(row)
          .onConflict((conflict) =>
            conflict.columns(['pluginName', 'key']).doUpdateSet({ value: text, bytes, updatedAt: tx.now }),
          )
          .execute()
        const { fn } = tx.q
        const used = await tx.q
          .selectFrom('pluginStorage')
          .select([fn.sum<number>('bytes').as('bytes'), fn.countAll<number>().as('keys')])
          .where('pluginName', '=', plugin)
          .executeTakeFirstOrThrow()
        if (Number(used.bytes) > STORAGE_QUOTA.bytes)
          throw full(`all values together may have ${STORAGE_QUOTA.bytes} bytes`)
        if (Number(used.keys) > STORAGE_QUOTA.keys) throw full(`there may be ${STORAGE_QUOTA.keys} keys`)
      })
    },
    delete: async (plugin, key) => {
      const name = keyOf(key)
      if ((await storedValue(db.read, plugin, name)) === undefined) return false
      const result = await db.write((tx) =>
        tx.q.deleteFrom('pluginStorage').where('pluginName', '=', plugin).where('key', '=', name).executeTakeFirst(),
      )
      return result.numDeletedRows > 0n
    },
    list: async (plugin, prefix) => {
      const parsed = Prefix.safeParse(prefix)
      if (!parsed.success) throw fieldError('prefix', 'must be a text of at most 200 characters')
      const rows = await db.read
        .selectFrom('pluginStorage')
        .select('key')
        .where('pluginName', '=', plugin)
        .orderBy('key')
        .execute()
      return rows.map(({ key }) => key).filter((key) => key.startsWith(parsed.data))
    },
  }
}

async function storedValue(q: Queries, plugin: string, key: string): Promise<string | undefined> {
  const row = await q
    .selectFrom('pluginStorage')
    .select('value')
    .where('pluginName', '=', plugin)
    .where('key', '=', key)
    .executeTakeFirst()
  return row?.value
}

function keyOf(key: unknown): string {
  const parsed = Key.safeParse(key)
  if (!parsed.success) throw fieldError('key', 'must be one line of 1 to 200 characters')
  return parsed.data
}

function full(what: string): PanelError {
  return new PanelError('INSUFFICIENT_SPACE', `The storage of the plugin is full: ${what}`)
}
