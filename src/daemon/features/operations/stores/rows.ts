import { type Selectable, sql } from 'kysely'
import { z } from 'zod'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** The id of the store that every installation has. */
export const LOCAL_STORE = 'bst_local'

/** A store as it is stored, the secret sealed. */
export type StoreRow = Selectable<Schema['backupStore']>

/** What is stored of a folder of nodes. */
export const LocalSettings = z.object({ folder: z.string().nullable().default(null) })
export type LocalSettings = z.infer<typeof LocalSettings>

/** What is stored of a bucket beside its secret. */
export const S3Settings = z.object({
  endpoint: z.string(),
  region: z.string(),
  bucket: z.string(),
  prefix: z.string(),
  pathStyle: z.boolean(),
  accessKeyId: z.string(),
})
export type S3Settings = z.infer<typeof S3Settings>

/** The settings of a row by its kind. */
export function settingsOf(
  row: Pick<StoreRow, 'kind' | 'settings'>,
): ({ readonly kind: 'local' } & LocalSettings) | ({ readonly kind: 's3' } & S3Settings) {
  return row.kind === 'local'
    ? { kind: 'local', ...parseJson(LocalSettings, row.settings) }
    : { kind: 's3', ...parseJson(S3Settings, row.settings) }
}

/** One page of stores by name. */
export async function listStores(
  q: Queries,
  { search, page, limit }: { search?: string | undefined; page: number; limit: number },
): Promise<{ items: CountedStore[]; total: number }> {
  const matching = (): ReturnType<typeof selectStores> =>
    search === undefined
      ? selectStores(q)
      : selectStores(q).where(textMatches(search, 'backupStore.id', ['backupStore.name']))
  const items = await matching()
    .orderBy('backupStore.name')
    .orderBy('backupStore.id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  return { items, total: await totalOf(q, matching(), { query: { page, limit }, found: items.length }) }
}

/** The store with what uses it. */
export async function findCounted(q: Queries, id: string): Promise<CountedStore | undefined> {
  return selectStores(q).where('backupStore.id', '=', id).executeTakeFirst()
}

/** The store with its sealed secret. */
export async function findStore(q: Queries, id: string): Promise<StoreRow | undefined> {
  return q.selectFrom('backupStore').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The store of this id or, when there is none, of this name. */
export async function findByRef(q: Queries, ref: string): Promise<StoreRow | undefined> {
  const rows = await q
    .selectFrom('backupStore')
    .selectAll()
    .where((eb) => eb.or([eb('id', '=', ref), eb('name', '=', ref)]))
    .execute()
  return rows.find(({ id }) => id === ref) ?? rows[0]
}

/** Whether another store has this name, in whichever case it is written. SQLite folds the case of ASCII letters alone. */
export async function hasNamesake(q: Queries, name: string, besideId: string): Promise<boolean> {
  const rows = await q.selectFrom('backupStore').select(['id', 'name']).where('id', '!=', besideId).execute()
  const folded = name.normalize('NFC').toLowerCase()
  return rows.some((row) => row.name.normalize('NFC').toLowerCase() === folded)
}

/** Which store a thing has of its own; `undefined`: there is no such thing. */
export async function defaultOf(
  q: Queries,
  table: 'location' | 'node' | 'server',
  id: string,
): Promise<{ backupStoreId: string | null } | undefined> {
  return q.selectFrom(table).select('backupStoreId').where('id', '=', id).executeTakeFirst()
}

/** One page of what has a store of its own: locations, then nodes, then servers. */
export async function listDefaults(q: Queries, { page, limit }: { page: number; limit: number }) {
  const of = (table: 'location' | 'node' | 'server', rank: number) =>
    q
      .selectFrom(table)
      .innerJoin('backupStore', 'backupStore.id', `${table}.backupStoreId`)
      .select([
        `${table}.id as id`,
        `${table}.name as name`,
        'backupStore.id as storeId',
        'backupStore.name as storeName',
      ])
      .select([
        sql<'location' | 'node' | 'server'>`${sql.lit(table)}`.as('scope'),
        sql<number>`${sql.lit(rank)}`.as('rank'),
      ])
  const all = () => of('location', 1).unionAll(of('node', 2)).unionAll(of('server', 3))
  const items = await q
    .selectFrom(all().as('own'))
    .selectAll()
    .orderBy('rank')
    .orderBy('name')
    .orderBy('id')
    .limit(limit)
    .offset(offsetOf({ page, limit }))
    .execute()
  const { count } = await q
    .selectFrom(all().as('own'))
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return { items, total: Number(count) }
}

/** A store and how many backups, locations, nodes and servers refer to it. */
export type CountedStore = Awaited<ReturnType<ReturnType<typeof selectStores>['executeTakeFirstOrThrow']>>

function selectStores(q: Queries) {
  const count = (table: 'backup' | 'self_backup' | 'backup_policy' | 'location' | 'node' | 'server', column: string) =>
    sql<number>`(select count(*) from ${sql.table(table)} where ${sql.ref(`${table}.${column}`)} = ${sql.ref('backupStore.id')})`
  return q
    .selectFrom('backupStore')
    .selectAll('backupStore')
    .select([
      count('backup', 'storeId').as('serverBackups'),
      count('self_backup', 'storeId').as('selfBackups'),
      count('backup_policy', 'storeId').as('policies'),
      count('location', 'backupStoreId').as('locations'),
      count('node', 'backupStoreId').as('nodes'),
      count('server', 'backupStoreId').as('servers'),
    ])
}
