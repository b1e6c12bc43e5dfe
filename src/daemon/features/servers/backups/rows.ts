import type { Insertable, Selectable, SelectQueryBuilder, Updateable } from 'kysely'
import type { Backup } from '../../../../shared/api/backups.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { BackupStatus } from '../../../db/schema/backups.ts'
import type { Schema } from '../../../db/schema.ts'
import { textMatches } from '../../../db/text-search.ts'

/** A backup as it is stored. */
export type BackupRow = Selectable<Schema['backup']>

/** A backup with what its answers need of its store and node. */
export type ShownBackup = BackupRow & {
  readonly storeName: string
  readonly storeKind: Backup['storageMode']
  readonly nodeName: string | null
}

/** What is asked of a list of backups. */
export interface BackupFilter {
  readonly page: number
  readonly limit: number
  readonly serverId?: string | undefined
  readonly ownerId?: string | undefined
  readonly nodeId?: string | undefined
  readonly storeId?: string | undefined
  readonly policyId?: string | undefined
  readonly status?: BackupStatus | undefined
  readonly label?: string | undefined
  readonly orphaned?: boolean | undefined
  readonly damaged?: boolean | undefined
  readonly search?: string | undefined
}

function shown(q: Queries) {
  return q
    .selectFrom('backup')
    .innerJoin('backupStore', 'backupStore.id', 'backup.storeId')
    .leftJoin('node', 'node.id', 'backup.nodeId')
    .selectAll('backup')
    .select(['backupStore.name as storeName', 'backupStore.kind as storeKind', 'node.name as nodeName'])
}

/** One page of backups, newest first. */
export async function listShown(
  q: Queries,
  filter: BackupFilter,
): Promise<{ readonly rows: ShownBackup[]; readonly total: number }> {
  const matching = narrow(shown(q), filter)
  const rows = await matching
    .orderBy('backup.createdAt', 'desc')
    .orderBy('backup.id', 'desc')
    .limit(filter.limit)
    .offset(offsetOf(filter))
    .execute()
  return { rows, total: await totalOf(q, matching, { query: filter, found: rows.length }) }
}

type Shown = ReturnType<typeof shown>

function narrow(query: Shown, filter: BackupFilter): Shown {
  const by = [
    ['backup.serverId', filter.serverId],
    ['backup.ownerId', filter.ownerId],
    ['backup.nodeId', filter.nodeId],
    ['backup.storeId', filter.storeId],
    ['backup.policyId', filter.policyId],
    ['backup.status', filter.status],
    ['backup.label', filter.label],
  ] as const
  let narrowed = query
  for (const [column, value] of by) if (value !== undefined) narrowed = narrowed.where(column, '=', value as never)
  const { orphaned, damaged, search } = filter
  if (orphaned !== undefined) narrowed = narrowed.where('backup.serverId', orphaned ? 'is' : 'is not', null)
  if (damaged !== undefined) narrowed = narrowed.where('backup.damage', damaged ? 'is not' : 'is', null)
  if (search !== undefined)
    narrowed = narrowed.where(textMatches(search, 'backup.id', ['backup.name', 'backup.serverName']))
  return narrowed
}

/** The backup with this id; with `serverId` only one of that server. */
export async function findShown(q: Queries, id: string, serverId?: string): Promise<ShownBackup | undefined> {
  const found = shown(q).where('backup.id', '=', id)
  return (serverId === undefined ? found : found.where('backup.serverId', '=', serverId)).executeTakeFirst()
}

/** The row alone. */
export async function findBackup(q: Queries, id: string): Promise<BackupRow | undefined> {
  return q.selectFrom('backup').selectAll().where('id', '=', id).executeTakeFirst()
}

export async function insertBackup(tx: Tx, row: Insertable<Schema['backup']>): Promise<void> {
  await tx.q.insertInto('backup').values(row).execute()
}

/** Changes a backup that is in one of these states; false when it is in none of them, or gone. */
export async function moveBackup(
  tx: Tx,
  id: string,
  from: readonly BackupStatus[],
  to: Updateable<Schema['backup']>,
): Promise<boolean> {
  const moved = await tx.q
    .updateTable('backup')
    .set({ ...to, updatedAt: tx.now })
    .where('id', '=', id)
    .where('status', 'in', from)
    .executeTakeFirst()
  return moved.numUpdatedRows > 0n
}

/** Changes a backup, whatever its state. */
export async function setBackup(tx: Tx, id: string, to: Updateable<Schema['backup']>): Promise<void> {
  await tx.q
    .updateTable('backup')
    .set({ ...to, updatedAt: tx.now })
    .where('id', '=', id)
    .execute()
}

export async function removeBackup(tx: Tx, id: string): Promise<void> {
  await tx.q.deleteFrom('backup').where('id', '=', id).execute()
}

/** Whole backups, or such as are being restored or deleted. */
const WHOLE = ['completed', 'restoring'] as const

/** What the backups of a server take in their stores, in bytes: its own, or those of a policy. */
export async function storedBytesOf(
  q: Queries,
  { serverId, policyId }: { readonly serverId: string; readonly policyId: string | null },
): Promise<number> {
  let query = q
    .selectFrom('backup')
    .select((eb) => eb.fn.sum<number | null>('storedBytes').as('bytes'))
    .where('serverId', '=', serverId)
    .where('status', 'in', WHOLE)
  query = policyId === null ? query.where('counts', '=', 1) : query.where('policyId', '=', policyId)
  return Number((await query.executeTakeFirst())?.bytes ?? 0)
}

/** The backups of an owner in a store that are whole or may be: what prune must keep. */
export async function keptIn(
  q: Queries,
  { ownerId, storeId }: Pick<BackupRow, 'ownerId' | 'storeId'>,
): Promise<string[]> {
  const rows = await q
    .selectFrom('backup')
    .select('id')
    .where('ownerId', '=', ownerId)
    .where('storeId', '=', storeId)
    .where('status', '!=', 'failed')
    .execute()
  return rows.map(({ id }) => id)
}

/** Open jobs of backups that concern a server, by their lanes. */
export function openJobs(q: Queries): SelectQueryBuilder<Schema, 'job', { lane: string; serverId: string | null }> {
  return q.selectFrom('job').select(['lane', 'serverId']).where('pool', '=', 'backups').where('endedAt', 'is', null)
}
