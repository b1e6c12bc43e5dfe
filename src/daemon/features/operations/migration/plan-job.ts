import { z } from 'zod'
import type { MigrationPlan } from '../../../../shared/api/migration.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import { defineJob, type StepEnd } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { changeJob } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { dispatch } from './dispatch.ts'
import { MigrationConfig } from './migration-config.ts'
import type { OpenSources } from './open-sources.ts'
import { comparing } from './plan/comparison.ts'
import { type BuiltPlan, buildPlan } from './plan/plan.ts'
import { readSnapshot } from './read-snapshot.ts'
import { readTarget } from './read-target.ts'
import { findJob, insertSteps, type MigrationRow, skippedSteps } from './rows.ts'
import { SourceFailure } from './source/source.ts'

const MOST_RESTARTS = 10_000

/** Reads the source and makes the plan of a migration: all steps are there before the first of them changes anything. */
export const MAKE_PLAN = defineJob({
  kind: 'migration.plan',
  input: z.object({ jobId: z.string(), sourceUrl: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ sourceUrl }) => `Plan the migration from ${sourceUrl}`,
  pool: { name: 'migration.plan', size: 1 },
  lane: () => 'plan',
  ordered: false,
  background: true,
  plan: () => [{ step: 'plan', name: 'plan' }],
  needs: () => ({ panel: 'admin.write' }),
})

/** Gives the engine the work of plans. */
export function registerPlans(
  jobs: Pick<Jobs, 'register'>,
  deps: MigrationDeps & { readonly sources: OpenSources },
): void {
  jobs.register(MAKE_PLAN, {
    steps: {
      plan: {
        // A plan that an end of the daemon has cut off is made anew.
        attempts: MOST_RESTARTS,
        timeoutMs: 6 * 3_600_000,
        retryable: false,
        run: async ({ job: { input }, signal }) => {
          const { jobId } = input
          const job = await deps.db.write(async (tx) => {
            await changeJob(tx, deps, { jobId, event: 'taken' })
            return findJob(tx.q, jobId)
          })
          // While this job is open no other one is added for a migration that is resumed.
          if (job?.status !== 'validating') return async (tx) => planAgain(tx, jobId)
          const made = await planned(deps, { job, signal })
          // Stored before the job's step ends: what the database refuses for good ends the migration, and is not tried for ever.
          try {
            await deps.db.write((tx) => store(tx, deps, { job, made }))
          } catch (error) {
            if (signal.aborted || isStorageFailure(error)) throw error
            deps.log.error({ err: error, jobId }, 'cannot store the plan of a migration')
            await deps.db.write((tx) => changeJob(tx, deps, { jobId, event: 'refused', set: NOT_MADE }))
          }
          // It may have been resumed in between.
          return async (tx) => planAgain(tx, jobId)
        },
      },
    },
    ended: async (tx, { input: { jobId } }, status) => {
      if (status === 'succeeded') return
      await changeJob(tx, deps, { jobId, event: 'refused', set: NOT_MADE })
    },
  })
}

const NOT_MADE = {
  error: 'The plan could not be made; the log of the panel has the reason',
  errorCode: 'INTERNAL_ERROR',
} as const

/** Writes down what came of a plan, and all of its steps. */
async function store(
  tx: Tx,
  deps: MigrationDeps,
  { job, made }: { readonly job: MigrationRow; readonly made: Made },
): Promise<void> {
  const { id: jobId } = job
  if (made.kind === 'refused') {
    const { error, errorCode } = made
    await changeJob(tx, deps, { jobId, event: 'refused', set: { error, errorCode } })
    return
  }
  const { built, set } = made
  const config = parseJson(MigrationConfig, job.config)
  const plan = { ...set, plan: JSON.stringify(built.plan), planHash: built.plan.hash }
  const refusal = config.dryRun || config.verifyOf !== null ? undefined : refusalOf(built.plan, config)
  if (refusal !== undefined) {
    // Without steps there is nothing to go on with: resuming it makes the plan anew.
    await changeJob(tx, deps, { jobId, event: 'refused', set: { ...plan, planHash: null, ...refusal } })
    return
  }
  if (config.dryRun) {
    await changeJob(tx, deps, { jobId, event: 'planned_only', set: { ...plan, outcome: 'clean' } })
    return
  }
  // What was cancelled meanwhile has no steps to leave out.
  if ((await findJob(tx.q, jobId))?.requested !== 'cancel') await insertSteps(tx, jobId, built.steps)
  await changeJob(tx, deps, { jobId, event: 'planned', set: plan })
  await dispatch(tx, deps, jobId)
}

async function planAgain(tx: Tx, jobId: string): Promise<StepEnd<Record<string, never>> | undefined> {
  const job = await findJob(tx.q, jobId)
  return job?.status === 'pending' ? { after: { kind: 'again', atMs: undefined } } : undefined
}

type Made =
  | { readonly kind: 'refused'; readonly error: string; readonly errorCode: string }
  | {
      readonly kind: 'made'
      readonly built: BuiltPlan
      readonly set: Pick<MigrationRow, 'sourceFp' | 'sourceKind' | 'sourceVersion'>
    }

async function planned(
  deps: MigrationDeps & { readonly sources: OpenSources },
  { job, signal }: { readonly job: MigrationRow; readonly signal: AbortSignal },
): Promise<Made> {
  const { options, ...config } = parseJson(MigrationConfig, job.config)
  const { nodeMappings, serverMappings, scope } = config
  try {
    const source = await deps.sources.of(job)
    const probe = await source.probe(signal)
    if (probe.missing.length > 0) {
      return { kind: 'refused', error: probe.missing.join(' '), errorCode: 'SOURCE_RIGHTS_MISSING' }
    }
    const isWanted = ({ id, nodeId }: { readonly id: string; readonly nodeId: string }): boolean =>
      Object.hasOwn(serverMappings, id) || (scope !== 'server' && Object.hasOwn(nodeMappings, nodeId))
    const snapshot = await readSnapshot(source, { isWanted, signal })
    const nodeIds = [...new Set([...Object.values(nodeMappings), ...Object.values(serverMappings)])]
    // One that is away at this moment may know it: its steps wait for it.
    const isAgentTooOld = (nodeId: string): boolean => deps.isOnline(nodeId) && !deps.gateway.can(nodeId, 'migration@1')
    const target = await readTarget(deps.db.read, { sourceFp: source.fingerprint, nodeIds, isAgentTooOld })
    const request = { scope, nodeMappings, serverMappings, phases: config.phases, options }
    const whole = buildPlan(snapshot, target, { request, createdAt: job.createdAt })
    const { verifyOf: ofJob } = config
    const built = ofJob === null ? whole : comparing(whole, { ofJob, left: await skippedSteps(deps.db.read, ofJob) })
    const set = { sourceFp: source.fingerprint, sourceKind: source.flavor, sourceVersion: probe.version }
    return { kind: 'made', built, set }
  } catch (error) {
    if (signal.aborted) throw error
    if (error instanceof SourceFailure) {
      return { kind: 'refused', error: error.message, errorCode: error.problem.toUpperCase().replaceAll('-', '_') }
    }
    if (error instanceof PanelError) return { kind: 'refused', error: error.message, errorCode: error.code }
    deps.log.error({ err: error, jobId: job.id }, 'cannot make the plan of a migration')
    return { kind: 'refused', ...NOT_MADE }
  }
}

/** What keeps a plan from being carried out. */
function refusalOf(
  { hash, conflicts }: MigrationPlan,
  { planHash, allowDrift }: MigrationConfig,
): { readonly error: string; readonly errorCode: string } | undefined {
  const [first] = conflicts
  if (first !== undefined) {
    const more = conflicts.length === 1 ? '' : `, and ${conflicts.length - 1} more; the plan lists them`
    return { error: `${first.source.name}: ${first.text}${more}`, errorCode: 'PLAN_CONFLICT' }
  }
  if (planHash === null || planHash === hash || allowDrift) return undefined
  return {
    error:
      'The source or this panel has changed since the plan was made: look at the new plan, or allow the difference',
    errorCode: 'PLAN_DRIFT',
  }
}
