import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { JobProgress } from '../../../../shared/kernel/job.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Principal } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { After } from '../../../jobs/job-type.ts'
import { announceStep, announceThrottle, changeStep } from './change.ts'
import type { MigrationDeps } from './deps.ts'
import { dispatch } from './dispatch.ts'
import { putMapped } from './map.ts'
import { MigrationConfig } from './migration-config.ts'
import type { OpenSources } from './open-sources.ts'
import { findJob, findStep, type MigrationRow, type MigrationStepRow } from './rows.ts'
import { SourceFailure } from './source/source.ts'
import { openAccess } from './source-keys.ts'
import { MIGRATION_STEP } from './step-job-type.ts'
import { ACTIONS } from './steps/actions.ts'
import { CLEANUP, REPORT } from './steps/source-changes.ts'
import { type StepContext, StepDelay, type StepProgress, StepRefusal, type StepResult } from './steps/step.ts'

/** How often a step is tried before it is left to somebody. */
const ATTEMPTS = 6
const FIRST_WAIT_MS = 2_000
/** For how long a step puts up with a source that wants to be left alone, or a node that is away. */
const MOST_WAITING_MS = 2 * 3_600_000
const PROGRESS_MS = 2_000
/** A node that is away is looked for again after so long. */
const AWAY_MS = 5_000
const MOST_RESTARTS = 10_000

type StepDeps = MigrationDeps & { readonly sources: OpenSources }

/** Gives the engine the work of steps. */
export function registerSteps(jobs: MigrationDeps['jobs'], deps: StepDeps): void {
  jobs.register(MIGRATION_STEP, {
    steps: {
      'carry out': {
        // How often it is tried is the migration's own matter: here each end of the daemon counts.
        attempts: MOST_RESTARTS,
        timeoutMs: 8 * 24 * 3_600_000,
        retryable: false,
        run: async ({ job: { input, principal }, signal, progress }) => {
          const after = await carryOut(deps, { ...input, principal, signal, keep: progress })
          // It may have been made pending again since; while this job is open no other one is added for it.
          return async (tx) => {
            const next = after ?? (await isDue(tx, input))
            return next === undefined ? undefined : { after: next }
          }
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

async function isDue(tx: Tx, { jobId, stepId }: { jobId: string; stepId: string }): Promise<After | undefined> {
  const job = await findJob(tx.q, jobId)
  const step = await findStep(tx.q, jobId, stepId)
  if (job?.status !== 'running' || step?.status !== 'pending' || isStopped(job, step)) return undefined
  return { kind: 'again', atMs: step.notBefore === null ? undefined : Date.parse(step.notBefore) }
}

/** Whether it does not begin now; it is queued again when its migration goes on. */
function isStopped({ requested }: MigrationRow, step: MigrationStepRow): boolean {
  if (requested === 'cancel') return isInterruptible(step)
  return requested === 'pause'
}

/** What comes when it is cancelled is carried out, whatever is asked meanwhile. */
function isInterruptible({ action }: MigrationStepRow): boolean {
  return action !== CLEANUP && action !== REPORT && !action.startsWith('rollback_')
}

/** Answers when the step is to be tried again, if it is. A stopped process leaves a step running: it goes on here. */
async function carryOut(
  deps: StepDeps,
  of: Pick<Attempted, 'principal' | 'signal' | 'keep'> & { readonly jobId: string; readonly stepId: string },
): Promise<After | undefined> {
  const { jobId, stepId, principal, keep } = of
  const { signal: interrupted, end } = deps.running.add(jobId, stepId)
  try {
    const begun = await deps.db.write(async (tx) => {
      const job = await findJob(tx.q, jobId)
      const step = await findStep(tx.q, jobId, stepId)
      if (step?.status === 'running') return job === undefined ? undefined : { job, step }
      if (job?.status !== 'running' || step === undefined || isStopped(job, step)) return undefined
      const running = await changeStep(tx, deps, { jobId, stepId, event: 'begin' })
      return running === undefined ? undefined : { job, step: running }
    })
    if (begun === undefined) return undefined
    // What is to be put back is, whatever is asked meanwhile.
    const heeds = isInterruptible(begun.step)
    const signal = heeds ? AbortSignal.any([of.signal, interrupted]) : of.signal
    return await attempted(deps, { ...begun, signal, stopping: of.signal, principal, keep })
  } finally {
    end()
  }
}

/** A step that has begun, of its migration. */
interface Begun {
  readonly job: MigrationRow
  readonly step: MigrationStepRow
}

interface Attempted extends Begun {
  readonly principal: Principal
  /** Aborts when it is to leave off. */
  readonly signal: AbortSignal
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal
  /** Writes down with its job how far it is, as often as the engine does that. */
  readonly keep: (now: JobProgress) => void
}

async function attempted(deps: StepDeps, of: Attempted): Promise<After | undefined> {
  const { job, step, signal, stopping } = of
  const { id: jobId } = job
  let work: StepWork | undefined
  try {
    work = workOf(deps, of)
    if (isStopped(job, step)) throw new Interrupted()
    const write = await work.run()
    const waitSeconds = Math.round((await deps.sources.throttledMs(jobId)) / 1000)
    await deps.db.write(async (tx) => {
      await finish(tx, deps, { job, step, result: await write(tx) })
      if (waitSeconds > 0) await announceThrottle(tx, deps, { jobId, waitSeconds })
      await dispatch(tx, deps, jobId)
    })
    return undefined
  } catch (error) {
    // The daemon stops: the step stays running, and goes on when there is one again.
    if (stopping.aborted) throw error
    const now = await findJob(deps.db.read, jobId)
    if (now?.requested === 'cancel' && (signal.aborted || error instanceof Interrupted)) {
      await work?.abandon(stopping).catch((err: unknown) => {
        deps.log.warn({ err, jobId, stepId: step.id }, 'cannot remove what a cancelled step has left')
      })
    }
    return deps.db.write(async (tx) => {
      const atMs = await fail(tx, deps, {
        job,
        step,
        error,
        isInterrupted: signal.aborted || error instanceof Interrupted,
      })
      await dispatch(tx, deps, jobId)
      return atMs === undefined ? undefined : { kind: 'again', atMs }
    })
  }
}

/** It was asked to leave off before it had begun. */
class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** A step with all that it works with. */
interface StepWork {
  run(): Promise<(tx: Tx) => Promise<StepResult>>
  abandon(signal: AbortSignal): Promise<void>
}

function workOf(deps: StepDeps, { job, step, principal, signal, keep }: Attempted): StepWork {
  const { id: stepId, jobId, targetId } = step
  const { options } = parseJson(MigrationConfig, job.config)
  const access = job.keys === null ? undefined : openAccess(deps.vault, job)
  const place =
    access?.kind === 'panel'
      ? { sourceHost: new URL(access.url).hostname, insecure: access.insecure }
      : { sourceHost: '', insecure: false }
  const context: StepContext = {
    ...{ deps, jobId, stepId, targetId, principal, signal, options, ...place, ...keyOf({ job, step }) },
    source: () => deps.sources.of(job),
    progress: reporting(deps, { jobId, stepId, name: step.name, signal, keep }),
  }
  const action = ACTIONS[step.action]
  if (action === undefined) throw new StepRefusal('INTERNAL_ERROR', `This panel cannot carry out ${step.action}`)
  const input = action.input.parse(JSON.parse(step.input))
  return {
    run: () => action.run(context, input),
    abandon: async (until) => action.abandon?.({ ...context, signal: until }, input),
  }
}

/** Keeps how far a step is with its job, and announces it every few seconds; lossy. */
function reporting(
  { db, bus, clock, log }: StepDeps,
  {
    jobId,
    stepId,
    name,
    signal,
    keep,
  }: Pick<Attempted, 'signal' | 'keep'> & { readonly jobId: string; readonly stepId: string; readonly name: string },
): (now: StepProgress) => void {
  let lastMs = Number.NEGATIVE_INFINITY
  return (now) => {
    if (signal.aborted) return
    const { bytes, totalBytes, entries } = now
    const text = name.slice(0, 200)
    keep(
      bytes > 0
        ? { done: bytes, total: totalBytes, unit: 'bytes', text }
        : { done: entries, total: null, unit: 'items', text },
    )
    if (clock.monotonicMs() - lastMs < PROGRESS_MS) return
    lastMs = clock.monotonicMs()
    db.write((tx) => announceStep(tx, { bus }, { jobId, stepId, bytes, totalBytes, entries })).catch((err: unknown) =>
      log.warn({ err, jobId, stepId }, 'cannot announce the progress of a step'),
    )
  }
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
    if (result.reason === 'unchanged') await leaveOutRest(tx, deps, step)
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

/** What would come after it of the same thing has nothing to do either; what was changed on the source is put back all the same. */
async function leaveOutRest(
  tx: Tx,
  deps: StepDeps,
  { jobId, phase, sourceType, sourceId }: MigrationStepRow,
): Promise<void> {
  const rest = await tx.q
    .selectFrom('migrationStep')
    .select('id')
    .where('jobId', '=', jobId)
    .where('status', '=', 'pending')
    .where('phase', '=', phase)
    .where('sourceType', '=', sourceType)
    .where('sourceId', '=', sourceId)
    .where('intent', 'is', null)
    .orderBy('seq')
    .execute()
  for (const { id: stepId } of rest) {
    await changeStep(tx, deps, { jobId, stepId, event: 'not_needed', set: { reason: 'unchanged' } })
  }
}

const Checkpoint = z.looseObject({ waitingSinceMs: z.number().optional() })

/** Writes down why an attempt failed; answers when the next one is due if another one may succeed. */
async function fail(
  tx: Tx,
  deps: StepDeps,
  { job, step, error, isInterrupted }: Begun & { readonly error: unknown; readonly isInterrupted: boolean },
): Promise<number | undefined> {
  const { jobId, id: stepId, attempt } = step
  const now = isInterrupted ? await findJob(tx.q, jobId) : undefined
  if (now?.requested === 'cancel') {
    const set = { error: 'The migration was cancelled', errorCode: 'CANCELLED', retryable: 0 as const }
    await changeStep(tx, deps, { jobId, stepId, event: 'cancel', set })
    return undefined
  }
  if (isInterrupted) {
    await changeStep(tx, deps, { jobId, stepId, event: 'set_aside' })
    return undefined
  }
  const { code, message, isTransient, afterMs } = reasonOf(error)
  const set = { error: message.slice(0, 2000), errorCode: code }
  const nowMs = Date.parse(tx.now)
  // A node here that is away comes back, and nothing of the step has been tried.
  const isAway = error instanceof StepDelay && code === 'NODE_OFFLINE'
  if (isAway || WAITS.has(code)) {
    const before = step.checkpoint === null ? {} : parseJson(Checkpoint, step.checkpoint)
    const waitingSinceMs = before.waitingSinceMs ?? nowMs
    const atMs = nowMs + (isAway ? AWAY_MS : (afterMs ?? 60_000))
    if (atMs - waitingSinceMs <= MOST_WAITING_MS) {
      const checkpoint = JSON.stringify({ ...before, waitingSinceMs })
      await changeStep(tx, deps, {
        jobId,
        stepId,
        event: 'wait',
        set: { ...set, checkpoint, notBefore: isoTime(atMs) },
      })
      const waitSeconds = Math.ceil((atMs - nowMs) / 1000)
      if (!isAway) await announceThrottle(tx, deps, { jobId: job.id, waitSeconds })
      return atMs
    }
  }
  if (isTransient && attempt < ATTEMPTS) {
    const atMs = nowMs + (afterMs ?? FIRST_WAIT_MS * 2 ** (attempt - 1))
    await changeStep(tx, deps, { jobId, stepId, event: 'try_again', set: { ...set, notBefore: isoTime(atMs) } })
    return atMs
  }
  const retryable = error instanceof StepRefusal && !error.isRetryable ? 0 : 1
  await changeStep(tx, deps, { jobId, stepId, event: 'give_up', set: { ...set, retryable } })
  return undefined
}

/** Being asked to wait is no failure. */
const WAITS = new Set(['BACKUP_THROTTLE', 'THROTTLE'])

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
  if (error instanceof StepDelay) return { code: error.code, message: error.message, isTransient: true }
  if (error instanceof StepRefusal || error instanceof PanelError) {
    return { code: error.code, message: error.message, isTransient: false }
  }
  const message = error instanceof Error ? error.message : String(error)
  return { code: 'INTERNAL_ERROR', message, isTransient: false }
}
