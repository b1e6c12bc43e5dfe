import type { Selectable } from 'kysely'
import { newestFirst } from '../../../core/newest-first.ts'
import type { Queries } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'

/** A backup of the panel as it is stored. */
export type SelfBackupRow = Selectable<Schema['selfBackup']>

/** One page of backups, the newest first, each with its store. */
export async function listBackups(
  q: Queries,
  query: { readonly page: number; readonly limit: number; readonly status?: SelfBackupRow['status'] | undefined },
) {
  let matching = q.selectFrom('selfBackup')
  if (query.status !== undefined) matching = matching.where('status', '=', query.status)
  const items = await matching
    .selectAll()
    .orderBy('createdAt', 'desc')
    .orderBy('id', 'desc')
    .limit(query.limit)
    .offset(offsetOf(query))
    .execute()
  return { items, total: await totalOf(q, matching, { query, found: items.length }) }
}

export async function findBackup(q: Queries, id: string): Promise<SelfBackupRow | undefined> {
  return q.selectFrom('selfBackup').selectAll().where('id', '=', id).executeTakeFirst()
}

/** When the schedule has last begun one. */
export async function lastScheduled(q: Queries): Promise<SelfBackupRow | undefined> {
  return q
    .selectFrom('selfBackup')
    .selectAll()
    .where('cause', '=', 'schedule')
    .orderBy('createdAt', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Those that the schedule has made beyond the newest `keep` good ones, and failed ones that are older than these, the oldest first. */
export async function outlived(q: Queries, keep: number, nowMs: number): Promise<SelfBackupRow[]> {
  const dated = await q
    .selectFrom('selfBackup')
    .selectAll()
    .where('cause', '=', 'schedule')
    .where('status', '!=', 'pending')
    .orderBy('createdAt', 'desc')
    .execute()
  const rows = newestFirst(dated, nowMs)
  const kept = rows.filter(({ status }) => status === 'completed').slice(0, keep)
  const last = rows.findLastIndex((row) => kept.includes(row))
  const isOlder = (at: number): boolean => last >= 0 && at > last
  return rows.filter((row, at) => !kept.includes(row) && (row.status === 'completed' || isOlder(at))).toReversed()
}
