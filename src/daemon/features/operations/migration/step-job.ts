import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Tx } from '../../../db/db.ts'
import { defineJob } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { changeStep } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { dispatch } from './dispatch.ts'
import { putMapped } from './map.ts'
import type { OpenSources } from './open-sources.ts'
import { findJob, findStep } from './rows.ts'
import { SourceFailure } from './source/source.ts'
import { ACTIONS } from './steps/actions.ts'
import { StepRefusal, type StepResult } from './steps/step.ts'

/** How often a step is tried before it is left to somebody. */
const ATTEMPTS = 6
const FIRST_WAIT_MS = 2_000

/** Carries out one step of a migration: a transaction that begins it, its work, and one that writes down what came of it. */
export const MIGRATION_STEP = defineJob({
  kind: 'migration.step',
  input: z.object({ jobId: z.string(), stepId: z.string(), name: z.string() }),
  state: z.object({}),
  first: () => ({}),
  title: ({ name }) => `Import ${name}`,
  pool: { name: 'migration.steps', size: 16 },
  lane: ({ jobId, stepId }) => `${jobId} ${stepId}`,
  ordered: false,
  background: true,
  plan: ({ name }) => [{ step: 'carry out', name }],
  needs: () => ({ panel: 'admin.write' }),
})

/** What an attempt has come to. */
type Ending =
  | { readonly kind: 'result'; readonly write: (tx: Tx) => Promise<StepResult> }
  | { readonly kind: 'error'; readonly error: unknown }

/** Gives the engine the work of steps. */
export function registerSteps(
  jobs: Pick<Jobs, 'register' | 'queue'>,
  deps: MigrationDeps & { readonly sources: OpenSources },
): void {
  jobs.register(MIGRATION_STEP, {
    steps: {
      'carry out': {
        attempts: 1,
        timeoutMs: 24 * 3_600_000,
        retryable: false,
        prepare: async (tx, { input: { jobId, stepId } }) => {
          // One that a stopped process has left running begins anew; what it has done outside is looked for by its action.
          const step = await findStep(tx.q, jobId, stepId)
          if (step?.status === 'running') await changeStep(tx, deps, { jobId, stepId, event: 'lost' })
          await changeStep(tx, deps, { jobId, stepId, event: 'begin' })
          return {}
        },
        run: async ({ job: { input, principal }, signal }) => {
          const { jobId, stepId } = input
          const [job, step] = await Promise.all([findJob(deps.db.read, jobId), findStep(deps.db.read, jobId, stepId)])
          if (job?.sourceFp == null || step?.status !== 'running') return async () => undefined
          const { sourceFp } = job
          const sourceType = step.sourceType ?? ''
          const sourceId = step.sourceId ?? ''
          const key = { sourceFp, sourceType, sourceId }
          const source = () => deps.sources.of(job)
          const { targetId } = step
          const ending = await attempt(async () => {
            const action = ACTIONS[step.action]
            if (action === undefined) throw new StepRefusal('INTERNAL_ERROR', `This panel cannot carry out ${step.action}`)
            const given = action.input.parse(JSON.parse(step.input))
            return action.run({ deps, jobId, stepId, ...key, targetId, principal, source, signal }, given)
          })
          return async (tx) => {
            const failure = ending.kind === 'error' ? ending.error : await written(tx, ending.write)
            if (failure !== undefined) await failed(tx, deps, { jobId, stepId, attempt: step.attempt, error: failure })
            await dispatch(tx, deps, jobId)
            return undefined
          }

          async function written(tx: Tx, write: (tx: Tx) => Promise<StepResult>): Promise<unknown> {
            const result = await write(tx)
            const set = { result: JSON.stringify(result.notes ?? {}) }
            if (result.kind === 'skipped') {
              await changeStep(tx, deps, { jobId, stepId, event: 'not_needed', set: { ...set, reason: result.reason } })
              return undefined
            }
            const { target } = result
            if (target !== undefined) {
              const { type: targetType, id, ...of } = target
              await putMapped(tx, deps.clock, { ...key, ...of, targetType, targetId: id, targetHash: null, jobId })
            }
            await changeStep(tx, deps, { jobId, stepId, event: 'done', set: { ...set, ...(target && { targetId: target.id }) } })
            return undefined
          }
        },
      },
    },
  })
}

async function attempt(work: () => Promise<(tx: Tx) => Promise<StepResult>>): Promise<Ending> {
  try {
    return { kind: 'result', write: await work() }
  } catch (error) {
    return { kind: 'error', error }
  }
}

/** Writes down why an attempt failed, and when the next one is due if another one may succeed. */
export async function failed(
  tx: Tx,
  deps: Pick<MigrationDeps, 'bus' | 'log'>,
  of: { readonly jobId: string; readonly stepId: string; readonly attempt: number; readonly error: unknown },
): Promise<void> {
  const { jobId, stepId, error } = of
  const { code, message, isTransient, afterMs } = reasonOf(error)
  const set = { error: message.slice(0, 2000), errorCode: code }
  if (isTransient && of.attempt < ATTEMPTS) {
    const waitMs = afterMs ?? FIRST_WAIT_MS * 2 ** (of.attempt - 1)
    const notBefore = new Date(Date.parse(tx.now) + waitMs).toISOString() as typeof tx.now // as every time here
    await changeStep(tx, deps, { jobId, stepId, event: 'try_again', set: { ...set, notBefore } })
    return
  }
  const retryable = error instanceof StepRefusal && error.code === 'HOSTILE' ? 0 : 1
  await changeStep(tx, deps, { jobId, stepId, event: 'give_up', set: { ...set, retryable } })
}

function reasonOf(error: unknown): {
  readonly code: string
  readonly message: string
  readonly isTransient: boolean
  readonly afterMs?: number | undefined
} {
  if (error instanceof SourceFailure) {
    const { problem, message, isTransient, retryAfterMs } = error
    return { code: problem.toUpperCase().replaceAll('-', '_'), message, isTransient, afterMs: retryAfterMs ?? undefined }
  }
  if (error instanceof StepRefusal || error instanceof PanelError) {
    return { code: error.code, message: error.message, isTransient: false }
  }
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'INTERNAL_ERROR', message, isTransient: false }
}
