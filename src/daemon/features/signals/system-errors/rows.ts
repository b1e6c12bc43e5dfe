import { type SelectQueryBuilder, sql } from 'kysely'
import type { listSystemErrors, resolveSystemErrors } from '../../../../shared/api/system-errors.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import type { SystemError } from '../../../../shared/kernel/system-error.ts'
import { type IsoTime, isoTime } from '../../../../shared/kernel/time.ts'
import { systemErrorOf } from '../../../core/system-errors.ts'
import type { Db, Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import { containing, contains, textMatches } from '../../../db/text-search.ts'

type Query = Input<typeof listSystemErrors>['query']
/** Which errors are meant. */
export type ErrorFilter = Omit<Query, 'page' | 'limit'>
/** Which open ones are to be resolved. */
export type Selection = Omit<Input<typeof resolveSystemErrors>['body'], 'note'>

/** Who resolves, and with what note. */
export interface Resolution {
  readonly by: string | null
  readonly note: string | null
}

const BATCH = 1000
/** A row with its stack and what a client has sent with it has up to 70 KiB: few enough to be held at a time. */
const EXPORTED = 100
/** Clients can report errors of their own making: more rows than this are not kept. */
const MOST_KEPT = 10_000

/** One page, the last that happened first. */
export async function listErrors(q: Queries, query: Query): Promise<{ items: SystemError[]; total: number }> {
  const matching = matchingRows(q, query)
  const page = lastFirst(matching.select('id')).limit(query.limit).offset(offsetOf(query))
  const rows = await lastFirst(q.selectFrom('systemError').selectAll().where('id', 'in', page)).execute()
  return { items: rows.map(systemErrorOf), total: await totalOf(q, matching, { query, found: rows.length }) }
}

/** One error. */
export async function findError(q: Queries, id: string): Promise<SystemError | undefined> {
  const row = await q.selectFrom('systemError').selectAll().where('id', '=', id).executeTakeFirst()
  return row === undefined ? undefined : systemErrorOf(row)
}

/** All that match, newest id first, in batches: an error that happens meanwhile is neither left out nor listed twice. */
export async function* errorBatches(q: Queries, filter: ErrorFilter): AsyncGenerator<SystemError[]> {
  let last: string | undefined
  for (;;) {
    let matching = matchingRows(q, filter)
    if (last !== undefined) matching = matching.where('id', '<', last)
    const rows = await matching.selectAll().orderBy('id', 'desc').limit(EXPORTED).execute()
    if (rows.length > 0) yield rows.map(systemErrorOf)
    last = rows.at(-1)?.id
    if (rows.length < EXPORTED) return
  }
}

/** Resolves one that is open; whether it was. */
export async function resolveOne(tx: Tx, id: string, resolution: Resolution): Promise<boolean> {
  const done = await resolving(tx, resolution).where('id', '=', id).executeTakeFirst()
  return done.numUpdatedRows > 0n
}

/** Resolves all open ones of a selection; how many those were. */
export async function resolveSelected(tx: Tx, selection: Selection, resolution: Resolution): Promise<number> {
  let update = resolving(tx, resolution)
  const { level, component, from, to, ids } = selection
  if (level !== undefined) update = update.where('level', '=', level)
  if (component !== undefined) update = update.where(contains(sql.ref('component'), containing(component)))
  if (from !== undefined) update = update.where('lastSeenAt', '>=', isoTime(Date.parse(from)))
  if (to !== undefined) update = update.where('lastSeenAt', '<=', isoTime(Date.parse(to)))
  if (ids !== undefined) update = update.where('id', 'in', ids)
  return Number((await update.executeTakeFirst()).numUpdatedRows)
}

/** Forgets errors that have not happened since, and of the others all but the `most` that happened last. */
export async function pruneErrors(db: Db, before: IsoTime, most = MOST_KEPT): Promise<void> {
  const errors = (q: Queries) => q.selectFrom('systemError').select('id')
  await prune(db, (q) => errors(q).where('lastSeenAt', '<', before).limit(BATCH))
  await prune(db, (q) => errors(q).orderBy('lastSeenAt', 'desc').orderBy('id', 'desc').limit(BATCH).offset(most))
}

/** Removes what the query names, a thousand in each transaction. */
async function prune(db: Db, named: (q: Queries) => SelectQueryBuilder<Schema, 'systemError', { id: string }>) {
  for (;;) {
    const removed = await db.write(async (tx) => {
      const done = await tx.q.deleteFrom('systemError').where('id', 'in', named(tx.q)).executeTakeFirst()
      return Number(done.numDeletedRows)
    })
    if (removed < BATCH) return
  }
}

function resolving(tx: Tx, { by, note }: Resolution) {
  return tx.q
    .updateTable('systemError')
    .set({ resolvedAt: tx.now, resolvedBy: by, resolutionNote: note })
    .where('resolvedAt', 'is', null)
}

function lastFirst<Q extends { orderBy(column: 'lastSeenAt' | 'id', direction: 'desc'): Q }>(query: Q): Q {
  return query.orderBy('lastSeenAt', 'desc').orderBy('id', 'desc')
}

function matchingRows(q: Queries, filter: ErrorFilter) {
  let query = q.selectFrom('systemError')
  if (filter.level !== undefined) query = query.where('level', '=', filter.level)
  if (filter.component !== undefined) query = query.where(contains(sql.ref('component'), containing(filter.component)))
  if (filter.resolved !== undefined) query = query.where('resolvedAt', filter.resolved ? 'is not' : 'is', null)
  if (filter.requestId !== undefined) query = query.where('requestId', '=', filter.requestId)
  if (filter.from !== undefined) query = query.where('lastSeenAt', '>=', isoTime(Date.parse(filter.from)))
  if (filter.to !== undefined) query = query.where('lastSeenAt', '<=', isoTime(Date.parse(filter.to)))
  if (filter.search !== undefined) query = query.where(textMatches(filter.search, 'id', ['message']))
  return query
}
