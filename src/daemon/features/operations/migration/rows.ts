import { type Selectable, sql } from 'kysely'
import type {
  MigrationCounts,
  MigrationJobStatus,
  MigrationPhase,
  MigrationStepStatus,
} from '../../../../shared/kernel/migration.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { Schema } from '../../../db/schema.ts'
import type { PlannedStep } from './plan/draft.ts'
import { NEED_LOST } from './step-states.ts'

/** All of a migration but its plan and its report, which are large and looked at by few. */
export const JOB_COLUMNS = [
  ...(['seq', 'id', 'status', 'active', 'requested', 'rollback', 'outcome', 'sourceKind', 'sourceUrl'] as const),
  ...(['sourceVersion', 'sourceFp', 'config', 'keys', 'keysUntil', 'planHash', 'currentPhase', 'error'] as const),
  ...(['errorCode', 'createdBy', 'startedAt', 'completedAt', 'createdAt', 'updatedAt'] as const),
] as const

/** A migration, and a step of one, as they are stored. */
export type MigrationRow = Pick<Selectable<Schema['migrationJob']>, (typeof JOB_COLUMNS)[number]>
export type MigrationStepRow = Selectable<Schema['migrationStep']>

/** One page of migrations, newest first. */
export async function listJobs(
  q: Queries,
  { status, ...query }: { status?: MigrationJobStatus | undefined; page: number; limit: number },
): Promise<{ readonly rows: MigrationRow[]; readonly total: number }> {
  let matching = q.selectFrom('migrationJob').select(JOB_COLUMNS)
  if (status !== undefined) matching = matching.where('status', '=', status)
  const rows = await matching.orderBy('seq', 'desc').limit(query.limit).offset(offsetOf(query)).execute()
  return { rows, total: await totalOf(q, matching, { query, found: rows.length }) }
}

export async function findJob(q: Queries, id: string): Promise<MigrationRow | undefined> {
  return q.selectFrom('migrationJob').select(JOB_COLUMNS).where('id', '=', id).executeTakeFirst()
}

/** What a migration is going to do, and what has become of it, as JSON. */
export async function findPapers(
  q: Queries,
  id: string,
): Promise<{ readonly plan: string | null; readonly report: string | null } | undefined> {
  return q.selectFrom('migrationJob').select(['plan', 'report']).where('id', '=', id).executeTakeFirst()
}

/** The one that keeps another one from starting. */
export async function findOpenJob(
  q: Queries,
  { allowPaused, exceptId }: { readonly allowPaused: boolean; readonly exceptId?: string },
): Promise<MigrationRow | undefined> {
  const open: MigrationJobStatus[] = ['pending', 'validating', 'running', ...(allowPaused ? [] : ['paused' as const])]
  return q
    .selectFrom('migrationJob')
    .select(JOB_COLUMNS)
    .where('status', 'in', open)
    .where('id', '!=', exceptId ?? '')
    .orderBy('seq')
    .executeTakeFirst()
}

/** One page of the steps of a migration in their order. */
export async function listSteps(
  q: Queries,
  of: {
    jobId: string
    phase?: MigrationPhase | undefined
    status?: MigrationStepStatus | undefined
    page: number
    limit: number
  },
): Promise<{ readonly rows: MigrationStepRow[]; readonly total: number }> {
  let matching = q.selectFrom('migrationStep').selectAll().where('jobId', '=', of.jobId)
  if (of.phase !== undefined) matching = matching.where('phase', '=', of.phase)
  if (of.status !== undefined) matching = matching.where('status', '=', of.status)
  const rows = await matching.orderBy('seq').limit(of.limit).offset(offsetOf(of)).execute()
  return { rows, total: await totalOf(q, matching, { query: of, found: rows.length }) }
}

export async function findStep(q: Queries, jobId: string, id: string): Promise<MigrationStepRow | undefined> {
  return q.selectFrom('migrationStep').selectAll().where('jobId', '=', jobId).where('id', '=', id).executeTakeFirst()
}

/** Rows of one statement; SQLite bounds what it takes. */
const AT_A_TIME = 200

/** Writes all steps of a plan before any of them begins, behind those that there are. */
export async function insertSteps(tx: Tx, jobId: string, steps: readonly PlannedStep[], lastSeq = 0): Promise<void> {
  const rows = steps.map(
    ({ id, phase, action, name, sourceType, sourceId, targetId, skipped, failed, input }, index) => ({
      ...{ jobId, id, seq: lastSeq + index + 1, phase, action, name, sourceType, sourceId, targetId },
      status: statusOf(skipped, failed),
      reason: skipped,
      ...({
        error: failed?.text ?? null,
        errorCode: failed?.code ?? null,
        retryable: failed === undefined ? 1 : 0,
      } as const),
      input: JSON.stringify(input),
      completedAt: statusOf(skipped, failed) === 'pending' ? null : tx.now,
      updatedAt: tx.now,
    }),
  )
  for (const some of chunks(rows)) await tx.q.insertInto('migrationStep').values(some).execute()
  const needs = steps.flatMap(({ id: stepId, needs: done, follows }) => [
    ...done.map((needsId) => ({ jobId, stepId, needsId, metBy: 'done' as const })),
    ...follows.flatMap((needsId) =>
      done.includes(needsId) ? [] : [{ jobId, stepId, needsId, metBy: 'end' as const }],
    ),
  ])
  for (const some of chunks(needs)) await tx.q.insertInto('migrationStepNeed').values(some).execute()
}

function statusOf(skipped: string | null, failed: PlannedStep['failed']): 'pending' | 'skipped' | 'failed' {
  if (skipped !== null) return 'skipped'
  return failed === undefined ? 'pending' : 'failed'
}

function chunks<T>(all: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(all.length / AT_A_TIME) }, (_, at) =>
    all.slice(at * AT_A_TIME, (at + 1) * AT_A_TIME),
  )
}

/** How many steps of a migration stand where. */
export async function countSteps(
  q: Queries,
  jobId: string,
): Promise<MigrationCounts & { readonly pending: number; readonly running: number }> {
  const rows = await q
    .selectFrom('migrationStep')
    .select(['status', (of) => of.fn.countAll<number>().as('count')])
    .where('jobId', '=', jobId)
    .groupBy('status')
    .execute()
  const of = (status: MigrationStepStatus): number => Number(rows.find((row) => row.status === status)?.count ?? 0)
  const total = rows.reduce((sum, { count }) => sum + Number(count), 0)
  return {
    total,
    completed: of('completed'),
    failed: of('failed'),
    skipped: of('skipped'),
    pending: of('pending'),
    running: of('running'),
  }
}

/** A step as it is queued. `lane`: steps that share one go one after the other. */
export type QueuedStep = Pick<MigrationStepRow, 'id' | 'name' | 'notBefore'> & { readonly lane: string | null }

/**
 * Pending steps whose needs are all met and whose time has come, in their order. A need is met by a step that is completed, or was
 * skipped because its thing is there already.
 */
export async function readySteps(tx: Tx, jobId: string, limit: number): Promise<QueuedStep[]> {
  return tx.q
    .selectFrom('migrationStep as step')
    .select(['step.id', 'step.name', 'step.notBefore'])
    .select(sql<string | null>`json_extract(step.input, '$.lane')`.as('lane'))
    .where('step.jobId', '=', jobId)
    .where('step.status', '=', 'pending')
    .where((on) => on.or([on('step.notBefore', 'is', null), on('step.notBefore', '<=', tx.now)]))
    .where(
      sql<boolean>`not exists (select 1 from migration_step_need as need
        join migration_step as needed on needed.job_id = need.job_id and needed.id = need.needs_id
        where need.job_id = step.job_id and need.step_id = step.id
          and not (needed.status = 'completed' or (needed.status = 'skipped' and needed.reason in ('unchanged', 'exists'))
            or (need.met_by = 'end' and needed.status in ('failed', 'skipped'))))`,
    )
    .orderBy('step.seq')
    .limit(limit)
    .execute()
}

/** Pending steps that wait for a further attempt. */
export async function waitingSteps(
  tx: Tx,
  jobId: string,
): Promise<Pick<MigrationStepRow, 'id' | 'name' | 'notBefore'>[]> {
  return tx.q
    .selectFrom('migrationStep')
    .select(['id', 'name', 'notBefore'])
    .where('jobId', '=', jobId)
    .where('status', '=', 'pending')
    .where('notBefore', '>', tx.now)
    .orderBy('seq')
    .execute()
}

/** Pending steps that can no longer begin, each with the step for whose sake. */
export async function lostSteps(
  q: Queries,
  jobId: string,
): Promise<readonly { readonly id: string; readonly needsId: string }[]> {
  // From what was lost, of which there is little, to what needs it: the other way round all needs of all steps would be looked at.
  const { rows } = await sql<{ readonly id: string; readonly needsId: string }>`
    select step.id as id, need.needs_id as needs_id
    from migration_step as needed
    cross join migration_step_need as need indexed by migration_step_need_of
    cross join migration_step as step
    where needed.job_id = ${jobId} and needed.status in ('failed', 'skipped')
      and (needed.status = 'failed' or needed.reason is null or needed.reason not in ('unchanged', 'exists'))
      and need.job_id = needed.job_id and need.needs_id = needed.id and need.met_by = 'done'
      and step.job_id = need.job_id and step.id = need.step_id and step.status = 'pending'
    order by step.seq`.execute(q)
  return rows
}

/** The lanes of steps that run. */
export async function busyLanes(tx: Tx, jobId: string): Promise<string[]> {
  const rows = await tx.q
    .selectFrom('migrationStep')
    .select(sql<string | null>`json_extract(input, '$.lane')`.as('lane'))
    .where('jobId', '=', jobId)
    .where('status', '=', 'running')
    .execute()
  return rows.flatMap(({ lane }) => lane ?? [])
}

/** Why steps of a migration were left out, by their ids; not those that were for the sake of others. */
export async function skippedSteps(q: Queries, jobId: string): Promise<Map<string, string>> {
  const rows = await q
    .selectFrom('migrationStep')
    .select(['id', 'reason'])
    .where('jobId', '=', jobId)
    .where('status', '=', 'skipped')
    .where('reason', 'not like', `${NEED_LOST}%`)
    .execute()
  return new Map(rows.map(({ id, reason }) => [id, reason ?? '']))
}
