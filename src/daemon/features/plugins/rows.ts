import type { Selectable } from 'kysely'
import { z } from 'zod'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import { sha256 } from '../../core/secrets.ts'
import type { Queries, Tx } from '../../db/db.ts'
import { parseJson } from '../../db/json.ts'
import type { Schema } from '../../db/schema.ts'
import type { StoredConfig } from './config-values.ts'

/** What the database knows of a plugin. */
export type PluginRow = Selectable<Schema['plugin']>

const Granted = z.array(z.string())
/**
 * Numbers of system users of plugins; no account of the system has them. There are so many that two installations of one
 * machine do not meet: what runs as a plugin's user is ended with the plugin.
 */
const FIRST_UID = 1_900_000_000
const UIDS = 100_000_000

/** The row of a plugin; there is none before it was first enabled or configured. */
export async function findPlugin(q: Queries, name: string): Promise<PluginRow | undefined> {
  return q.selectFrom('plugin').selectAll().where('name', '=', name).executeTakeFirst()
}

/** All rows. */
export async function allPlugins(q: Queries): Promise<PluginRow[]> {
  return q.selectFrom('plugin').selectAll().orderBy('name').execute()
}

/** The permissions that were given. */
export function grantedOf(row: PluginRow | undefined): string[] {
  return row === undefined ? [] : parseJson(Granted, row.granted)
}

/** Makes the row if there is none. */
export async function ensureRow(tx: Tx, name: string): Promise<void> {
  await tx.q
    .insertInto('plugin')
    .values({
      name,
      enabled: 0,
      uid: null,
      granted: '[]',
      keyId: null,
      enabledBy: null,
      enabledAt: null,
      config: '{}',
      secrets: '{}',
      createdAt: tx.now,
      updatedAt: tx.now,
    })
    .onConflict((conflict) => conflict.column('name').doNothing())
    .execute()
}

/** Writes some columns. */
export async function updatePlugin(tx: Tx, name: string, fields: Partial<Omit<PluginRow, 'name' | 'createdAt'>>) {
  await tx.q
    .updateTable('plugin')
    .set({ ...fields, updatedAt: tx.now })
    .where('name', '=', name)
    .execute()
}

/** The columns of a configuration. */
export function configColumns({ plain, sealed }: StoredConfig): { config: string; secrets: string } {
  return { config: JSON.stringify(plain), secrets: JSON.stringify(sealed) }
}

/** The columns of a plugin that nobody wants to run. */
export const DISABLED = {
  enabled: 0,
  granted: '[]',
  keyId: null,
  enabledBy: null,
  enabledAt: null as IsoTime | null,
} as const

/** The plugin's number of a system user, given at the first call and the same for ever. `place` is the data folder. */
export async function uidOfPlugin(tx: Tx, name: string, place: string): Promise<number> {
  const rows = await tx.q.selectFrom('plugin').select(['name', 'uid']).where('uid', 'is not', null).execute()
  const known = rows.find((row) => row.name === name)?.uid
  if (known !== undefined && known !== null) return known
  const taken = new Set(rows.map(({ uid }) => uid))
  const start = Number.parseInt(sha256(`${place} ${name}`).slice(0, 12), 16)
  let uid = FIRST_UID + (start % UIDS)
  while (taken.has(uid)) uid += 1
  await updatePlugin(tx, name, { uid })
  return uid
}
