import { type Selectable, sql } from 'kysely'
import { type IsoTime, isoTime } from '../../shared/kernel/time.ts'
import type { Db, Queries, Tx } from '../db/db.ts'
import type { Schema } from '../db/schema.ts'
import { statement } from '../db/statement.ts'

/** A job as it is stored. */
export type JobRow = Selectable<Schema['job']>

/** A step as it is stored. */
export type StepRow = Selectable<Schema['jobStep']>

/** A lane of a pool. */
export interface Lane {
  readonly pool: string
  readonly lane: string
}

/** Rows of jobs that are forgotten in one transaction. */
const BATCH = 200

export async function findJob(q: Queries, id: string): Promise<JobRow | undefined> {
  return q.selectFrom('job').selectAll().where('id', '=', id).executeTakeFirst()
}

/** The open job of this key. */
export async function findByKey(q: Queries, key: string): Promise<JobRow | undefined> {
  return q.selectFrom('job').selectAll().where('jobKey', '=', key).where('endedAt', 'is', null).executeTakeFirst()
}

/** When the open job of this key may run. */
export const dueOfKey = statement((q, { key }: { key: string }) =>
  q.selectFrom('job').select('notBefore').where('jobKey', '=', key).where('endedAt', 'is', null),
)

/** The steps of a job in their order, at most `limit`. */
export async function stepsOf(q: Queries, jobId: string, limit: number): Promise<StepRow[]> {
  return q.selectFrom('jobStep').selectAll().where('jobId', '=', jobId).orderBy('number').limit(limit).execute()
}

/** The step that a job is at: the first that has not succeeded. */
export async function currentStep(q: Queries, jobId: string): Promise<StepRow | undefined> {
  return q
    .selectFrom('jobStep')
    .selectAll()
    .where('jobId', '=', jobId)
    .where('status', '!=', 'succeeded')
    .orderBy('number')
    .limit(1)
    .executeTakeFirst()
}

/** Those of the pools that have something due of these kinds: one question, where most of the pools have nothing. */
export async function duePools(
  q: Queries,
  {
    pools,
    now,
    kinds,
  }: { readonly pools: readonly string[]; readonly now: IsoTime; readonly kinds: readonly string[] },
): Promise<ReadonlySet<string>> {
  const { rows } = await sql<{ readonly pool: string }>`
    select asked.value as pool from json_each(${JSON.stringify(pools)}) as asked
    where exists (
      select 1 from job where job.pool = asked.value and job.due_at <= ${now} and job.kind in (${sql.join(kinds)})
    )`.execute(q)
  return new Set(rows.map(({ pool }) => pool))
}

/** The lanes of a pool that have something due of these kinds, the one that has waited longest first. */
export async function dueLanes(
  q: Queries,
  { pool, now, kinds, limit }: { pool: string; now: IsoTime; kinds: readonly string[]; limit: number },
): Promise<Lane[]> {
  return q
    .selectFrom('job')
    .select(['pool', 'lane'])
    .where('pool', '=', pool)
    .where('dueAt', '<=', now)
    .where('kind', 'in', kinds)
    .groupBy(['pool', 'lane'])
    .orderBy((eb) => eb.fn.min('dueAt'))
    .limit(limit)
    .execute()
}

/** When the next job after `now` is due. */
export async function nextDue(q: Queries, now: IsoTime, kinds: readonly string[]): Promise<IsoTime | undefined> {
  const row = await q
    .selectFrom('job')
    .select('dueAt')
    .where('dueAt', '>', now)
    .where('kind', 'in', kinds)
    .orderBy('dueAt')
    .limit(1)
    .executeTakeFirst()
  return row?.dueAt ?? undefined
}

/** The job of a lane that has been due longest. */
export async function dueInLane(tx: Tx, { pool, lane }: Lane, kinds: readonly string[]): Promise<JobRow | undefined> {
  return tx.q
    .selectFrom('job')
    .selectAll()
    .where('pool', '=', pool)
    .where('lane', '=', lane)
    .where('dueAt', '<=', tx.now)
    .where('kind', 'in', kinds)
    .orderBy('dueAt')
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
}

/** The job whose turn it is in a lane of ordered jobs. */
export async function firstInLane(tx: Tx, { pool, lane }: Lane): Promise<JobRow | undefined> {
  return tx.q
    .selectFrom('job')
    .selectAll()
    .where('pool', '=', pool)
    .where('lane', '=', lane)
    .where('ordered', '=', 1)
    .where('endedAt', 'is', null)
    .orderBy('seq')
    .limit(1)
    .executeTakeFirst()
}

/** The open ordered job that holds a lane up, beside this one: it is due, has begun, or waits for what it has started. */
async function holderOf(tx: Tx, { pool, lane }: Lane, besides: number): Promise<Pick<JobRow, 'seq'> | undefined> {
  return tx.q
    .selectFrom('job')
    .select('seq')
    .where('pool', '=', pool)
    .where('lane', '=', lane)
    .where('ordered', '=', 1)
    .where('endedAt', 'is', null)
    .where('seq', '!=', besides)
    .where((eb) =>
      eb.or([
        eb('dueAt', 'is not', null),
        eb('status', '=', 'waiting'),
        eb.and([eb('status', '=', 'paused'), eb('startedAt', 'is not', null)]),
      ]),
    )
    .limit(1)
    .executeTakeFirst()
}

/** Whether it is the turn of a job: nobody else holds its lane up, and it does so itself or is the first that is open. */
export async function hasTurn(tx: Tx, row: JobRow): Promise<boolean> {
  if (row.ordered === 0) return true
  if ((await holderOf(tx, row, row.seq)) !== undefined) return false
  if (row.dueAt !== null || (row.status === 'paused' && row.startedAt !== null)) return true
  const first = await firstInLane(tx, row)
  return first === undefined || first.seq >= row.seq
}

/** Gives the turn to the first that waits for it in a lane, unless somebody holds the lane up. Whether somebody got it. */
export async function passTurn(tx: Tx, lane: Lane): Promise<boolean> {
  const next = await firstInLane(tx, lane)
  if (next === undefined || next.status !== 'queued' || next.dueAt !== null) return false
  if ((await holderOf(tx, lane, next.seq)) !== undefined) return false
  const dueAt = next.notBefore > tx.now ? next.notBefore : tx.now
  await updateJob(tx, next, { dueAt })
  return true
}

/** Whether a lane has so many jobs that are due or wait for their time. */
export async function isLaneFull(tx: Tx, { pool, lane }: Lane, most: number): Promise<boolean> {
  const last = await tx.q
    .selectFrom('job')
    .select('seq')
    .where('pool', '=', pool)
    .where('lane', '=', lane)
    .where('dueAt', 'is not', null)
    .limit(1)
    .offset(most - 1)
    .executeTakeFirst()
  return last !== undefined
}

/** Whether a job has children that have not ended. */
export async function hasOpenChildren(tx: Tx, parentId: string): Promise<boolean> {
  const open = tx.q.selectFrom('job').select('seq').where('parentId', '=', parentId).where('endedAt', 'is', null)
  return (await open.limit(1).executeTakeFirst()) !== undefined
}

/** Changes a job; with `fence` only as long as nobody else has taken it up since. Answers the row, or nothing. */
export async function updateJob(
  tx: Tx,
  { seq, fence }: { readonly seq: number; readonly fence?: number },
  set: Partial<Omit<JobRow, 'seq' | 'id' | 'kind'>>,
): Promise<JobRow | undefined> {
  let update = tx.q
    .updateTable('job')
    .set({ ...set, updatedAt: tx.now })
    .where('seq', '=', seq)
  if (fence !== undefined) update = update.where('fence', '=', fence)
  return update.returningAll().executeTakeFirst()
}

export async function updateStep(tx: Tx, id: string, set: Partial<Omit<StepRow, 'id' | 'jobId'>>): Promise<StepRow> {
  return tx.q.updateTable('jobStep').set(set).where('id', '=', id).returningAll().executeTakeFirstOrThrow()
}

/** Has everything taken up at once that an earlier process has left running: nobody else works on this database. */
export async function takeUp(tx: Tx): Promise<void> {
  await tx.q.updateTable('job').set({ dueAt: tx.now }).where('status', '=', 'running').execute()
}

/**
 * Has what a clock has written that was ahead wait no longer than it was meant to then: every open job that was changed last in
 * the future, but those that run. A few in each transaction; answers how many.
 */
export async function pullBack(tx: Tx): Promise<{ readonly changed: number; readonly isDone: boolean }> {
  const ahead = tx.q.selectFrom('job').selectAll().where('endedAt', 'is', null).where('updatedAt', '>', tx.now)
  const rows = await ahead.where('status', '!=', 'running').limit(BATCH).execute()
  for (const row of rows) {
    const waited = (at: IsoTime): number => Math.max(0, Date.parse(at) - Date.parse(row.updatedAt))
    const back = (at: IsoTime): IsoTime => isoTime(Math.min(Date.parse(at), Date.parse(tx.now) + waited(at)))
    await updateJob(tx, row, { dueAt: row.dueAt === null ? null : back(row.dueAt), notBefore: back(row.notBefore) })
  }
  return { changed: rows.length, isDone: rows.length < BATCH }
}

/** Forgets jobs that ended before, and what is beyond the newest `keep` of those that have ended; a few in each transaction. */
export async function pruneJobs(db: Db, before: IsoTime, keep: number): Promise<void> {
  for (;;) {
    const removed = await db.write(async (tx) => {
      const ended = tx.q.selectFrom('job').select('seq').where('endedAt', 'is not', null)
      const newest = await ended
        .select('endedAt')
        .orderBy('endedAt', 'desc')
        .orderBy('seq', 'desc')
        .limit(1)
        .offset(keep)
        .executeTakeFirst()
      const old = ended
        .where((eb) =>
          eb.or([
            eb('endedAt', '<', before),
            ...(newest?.endedAt == null
              ? []
              : [
                  eb('endedAt', '<', newest.endedAt),
                  eb.and([eb('endedAt', '=', newest.endedAt), eb('seq', '<=', newest.seq)]),
                ]),
          ]),
        )
        .where((eb) =>
          // A parent goes after its children, so that what is open keeps its parent.
          eb.not(
            eb.exists(eb.selectFrom('job as child').select('child.seq').whereRef('child.parentId', '=', 'job.id')),
          ),
        )
        .limit(BATCH)
      return Number((await tx.q.deleteFrom('job').where('seq', 'in', old).executeTakeFirst()).numDeletedRows)
    })
    if (removed < BATCH) return
  }
}
