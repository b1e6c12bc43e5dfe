import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Principal } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import type { After } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { changeStep } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { CLEANUP, dispatch } from './dispatch.ts'
import { putMapped } from './map.ts'
import type { OpenSources } from './open-sources.ts'
import { findJob, findStep, type MigrationRow, type MigrationStepRow } from './rows.ts'
import { SourceFailure } from './source/source.ts'
import { MIGRATION_STEP } from './step-job-type.ts'
import { ACTIONS } from './steps/actions.ts'
import { StepRefusal, type StepResult } from './steps/step.ts'

/** How often a step is tried before it is left to somebody. */
const ATTEMPTS = 6
const FIRST_WAIT_MS = 2_000

type StepDeps = MigrationDeps & { readonly sources: OpenSources }

/** Gives the engine the work of steps. */
export function registerSteps(jobs: Pick<Jobs, 'register'>, deps: StepDeps): void {
  jobs.register(MIGRATION_STEP, {
    steps: {
      'carry out': {
        attempts: 1,
        timeoutMs: 24 * 3_600_000,
        retryable: false,
        run: async ({ job: { input, principal }, signal }) => {
          const after = await carryOut(deps, { ...input, principal, signal })
          return async () => (after === undefined ? undefined : { after })
        },
      },
    },
    // The engine gave it up: it took too long, or who asked may no longer.
    ended: async (tx, { input: { jobId, stepId } }, status) => {
      if (status === 'succeeded') return
      const set = { error: 'It was ended before it was done', errorCode: 'ENDED' }
      const step = await findStep(tx.q, jobId, stepId)
      if (step?.status === 'pending') await changeStep(tx, deps, { jobId, stepId, event: 'begin' })
      await changeStep(tx, deps, { jobId, stepId, event: 'give_up', set })
      await dispatch(tx, deps, jobId)
    },
  })
}

/** Answers when the step is to be tried again, if it is. A stopped process leaves a step running: it goes on here. */
async function carryOut(
  deps: StepDeps,
  of: { readonly jobId: string; readonly stepId: string; readonly principal: Principal; readonly signal: AbortSignal },
): Promise<After | undefined> {
  const { jobId, stepId } = of
  const begun = await deps.db.write(async (tx) => {
    const job = await findJob(tx.q, jobId)
    const step = await findStep(tx.q, jobId, stepId)
    if (step?.status === 'running') return job === undefined ? undefined : { job, step }
    // One that was paused or cancelled meanwhile is queued again when it goes on.
    const isStopping = job?.requested === 'pause' || (job?.requested === 'cancel' && step?.action !== CLEANUP)
    if (job?.status !== 'running' || isStopping) return undefined
    const running = await changeStep(tx, deps, { jobId, stepId, event: 'begin' })
    return running === undefined ? undefined : { job, step: running }
  })
  if (begun === undefined) return undefined
  try {
    const write = await work(deps, begun, of)
    await deps.db.write(async (tx) => {
      await finish(tx, deps, { ...begun, result: await write(tx) })
      await dispatch(tx, deps, jobId)
    })
    return undefined
  } catch (error) {
    // The daemon stops: the step stays running, and goes on when there is one again.
    if (of.signal.aborted) throw error
    return deps.db.write(async (tx) => {
      const atMs = await fail(tx, deps, { ...begun, error })
      await dispatch(tx, deps, jobId)
      return atMs === undefined ? undefined : { kind: 'again', atMs }
    })
  }
}

/** A step that has begun, of its migration. */
interface Begun {
  readonly job: MigrationRow
  readonly step: MigrationStepRow
}

function work(
  deps: StepDeps,
  { job, step }: Begun,
  { principal, signal }: { readonly principal: Principal; readonly signal: AbortSignal },
): Promise<(tx: Tx) => Promise<StepResult>> {
  const action = ACTIONS[step.action]
  if (action === undefined) throw new StepRefusal('INTERNAL_ERROR', `This panel cannot carry out ${step.action}`)
  const source = () => deps.sources.of(job)
  const { id: stepId, jobId, targetId } = step
  return action.run(
    { deps, jobId, stepId, ...keyOf({ job, step }), targetId, principal, source, signal },
    action.input.parse(JSON.parse(step.input)),
  )
}

function keyOf({ job, step }: Begun) {
  return { sourceFp: job.sourceFp ?? '', sourceType: step.sourceType ?? '', sourceId: step.sourceId ?? '' }
}

/** The step, the map and what was imported are one transaction. */
async function finish(
  tx: Tx,
  deps: StepDeps,
  { job, step, result }: Begun & { readonly result: StepResult },
): Promise<void> {
  const { id: stepId, jobId } = step
  const set = { result: JSON.stringify(result.notes ?? {}) }
  if (result.kind === 'skipped') {
    await changeStep(tx, deps, { jobId, stepId, event: 'not_needed', set: { ...set, reason: result.reason } })
    return
  }
  const { target } = result
  if (target !== undefined) {
    const { type: targetType, id: targetId, ...of } = target
    await putMapped(tx, deps.clock, { ...keyOf({ job, step }), ...of, targetType, targetId, targetHash: null, jobId })
  }
  const targetId = target === undefined ? {} : { targetId: target.id }
  await changeStep(tx, deps, { jobId, stepId, event: 'done', set: { ...set, ...targetId } })
}

/** Writes down why an attempt failed; answers when the next one is due if another one may succeed. */
async function fail(
  tx: Tx,
  deps: StepDeps,
  { step: { jobId, id: stepId, attempt }, error }: Begun & { readonly error: unknown },
): Promise<number | undefined> {
  const { code, message, isTransient, afterMs } = reasonOf(error)
  const set = { error: message.slice(0, 2000), errorCode: code }
  if (isTransient && attempt < ATTEMPTS) {
    const waitMs = afterMs ?? FIRST_WAIT_MS * 2 ** (attempt - 1)
    const atMs = Date.parse(tx.now) + waitMs
    await changeStep(tx, deps, { jobId, stepId, event: 'try_again', set: { ...set, notBefore: isoTime(atMs) } })
    return atMs
  }
  const retryable = error instanceof StepRefusal && error.code === 'HOSTILE' ? 0 : 1
  await changeStep(tx, deps, { jobId, stepId, event: 'give_up', set: { ...set, retryable } })
  return undefined
}

function reasonOf(error: unknown): {
  readonly code: string
  readonly message: string
  readonly isTransient: boolean
  readonly afterMs?: number | undefined
} {
  if (error instanceof SourceFailure) {
    const { problem, message, isTransient, retryAfterMs } = error
    return {
      code: problem.toUpperCase().replaceAll('-', '_'),
      message,
      isTransient,
      afterMs: retryAfterMs ?? undefined,
    }
  }
  if (error instanceof StepRefusal || error instanceof PanelError) {
    return { code: error.code, message: error.message, isTransient: false }
  }
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'INTERNAL_ERROR', message, isTransient: false }
}
