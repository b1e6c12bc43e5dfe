import { SCHEDULE_LIMITS, type TaskStep } from '../../../../shared/kernel/schedule.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { Queries, Tx } from '../../../db/db.ts'
import type { Finish, StepEnd } from '../../../jobs/job-type.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import { findServerRow } from '../servers/rows.ts'
import * as rows from './rows.ts'
import { FIRST_STATE, RUN, type RunState } from './run-type.ts'
import { endRun, progressed, type RunDeps } from './runs.ts'
import { SETTLING_LOOK_MS, settlingSince } from './settling.ts'
import { type BackupStepDeps, backupOutcome, startBackup } from './steps/backup.ts'
import { type CommandDeps, typeLine } from './steps/command.ts'
import { consoleCursor, within } from './steps/console-output.ts'
import { type Outcome, type RunJob, refused } from './steps/outcome.ts'
import { order, outcomeOf, type PowerDeps } from './steps/power.ts'

/** What carrying out runs needs. */
export type RunJobDeps = RunDeps & CommandDeps & PowerDeps & BackupStepDeps

type Deps = RunJobDeps & { readonly isSettling: () => boolean }

/** Attempts of one step that an end of the daemon, or a bug, may use up before its run has failed. */
const ATTEMPTS = 20
/** Beyond the longest wait of any step: each has a time of its own. */
const TIMEOUT_MS = 3_600_000
/** How often a backup is looked at. */
const BACKUP_LOOK_MS = 5000
const STARTING: ReadonlySet<string> = new Set(['start', 'stop', 'restart', 'kill'])

/** Has the engine carry out runs. */
export function registerRuns(jobs: Pick<Jobs, 'register'>, given: RunJobDeps): void {
  const deps = { ...given, isSettling: settlingSince(given.clock) }
  jobs.register(RUN, {
    steps: {
      step: {
        attempts: ATTEMPTS,
        timeoutMs: TIMEOUT_MS,
        // What has run is history: who wants it again runs the schedule.
        retryable: false,
        prepare: (tx, job) => prepare(tx, deps, job),
        run: ({ job, signal }) => carryOn(deps, { job, signal }),
      },
    },
    ended: async (tx, job, status) => {
      const run = await rows.findRun(tx.q, job.input.runId)
      if (run === undefined) return // gone with its schedule
      if (status === 'succeeded') {
        const { failures } = job.state
        const error = failures === 0 ? null : `${failures} of ${job.input.steps.length} steps failed`
        return await endRun(tx, deps, run, { status: 'success', reason: null, error })
      }
      if (status === 'cancelled') {
        return await endRun(tx, deps, run, {
          status: 'aborted',
          reason: null,
          error: run.error ?? 'Its job was cancelled',
        })
      }
      const failed = tx.q.selectFrom('jobStep').select(['number', 'error', 'errorCode']).where('jobId', '=', job.id)
      const step = await failed.where('status', '=', 'failed').executeTakeFirst()
      const error = step?.error ?? 'It failed'
      await endRun(tx, deps, run, { status: 'failed', reason: step?.errorCode ?? null, error, at: step?.number ?? 0 })
    },
  })
}

function stepOf({ input, step: { number } }: RunJob): TaskStep {
  const step = input.steps[number - 1]
  if (step === undefined) throw new Error(`the run has no step ${number}`)
  return step
}

/** Begins a step, and gives its order once it has waited: in the transaction that says so. */
async function prepare(tx: Tx, deps: Deps, job: RunJob): Promise<RunState> {
  const { state, input } = job
  const { number } = job.step
  const step = stepOf(job)
  if (state.number !== number) {
    await rows.updateRunStep(tx, input.runId, number, { status: 'running', startedAt: tx.now })
    await progressed(tx, deps, { ...input, step: number, steps: input.steps.length })
    const waitMs = 1000 * (step.timeOffset + (step.action === 'wait' ? step.payload.seconds : 0))
    const until = waitMs === 0 ? null : isoTime(Date.parse(tx.now) + waitMs)
    return { ...FIRST_STATE, failures: state.failures, number, waitMs, until }
  }
  if (state.phase !== 'ready' || (await awaitsNode(tx.q, deps, job))) return state
  const acting = { ...state, phase: 'acting', actedAt: tx.now } as const
  if (step.action === 'command' || step.action === 'wait') return acting
  if (step.action === 'backup') {
    const started = await startBackup(tx, deps, job, step)
    await rows.updateRunStep(tx, input.runId, number, { jobId: started.backupJobId })
    return { ...acting, ...started }
  }
  const ordered = await order(tx, deps, job, step)
  await rows.updateRunStep(tx, input.runId, number, { commandId: ordered.commandId })
  return { ...acting, ...ordered }
}

/** One attempt: waits by coming again later, so that no place is taken up meanwhile; else does what the step does. */
async function carryOn(
  deps: Deps,
  attempt: { readonly job: RunJob; readonly signal: AbortSignal },
): Promise<Finish<RunState>> {
  const { job } = attempt
  const { state } = job
  const step = stepOf(job)
  if (state.phase === 'waiting' && state.until !== null) {
    const leftMs = Math.min(Date.parse(state.until) - deps.clock.nowMs(), state.waitMs)
    if (leftMs > 0) {
      const atMs = deps.clock.nowMs() + leftMs
      return async () => ({ after: { kind: 'again', atMs } })
    }
  }
  if (step.action === 'wait') return finished(job, step, { ok: true })
  if (state.phase !== 'acting' && (await awaitsNode(deps.db.read, deps, job))) {
    const atMs = deps.clock.nowMs() + SETTLING_LOOK_MS
    return async () => ({ after: { kind: 'again', atMs } })
  }
  if (step.action === 'command') return finished(job, step, await typeLine(deps, attempt, step))
  if (state.phase !== 'acting') {
    const cursor = STARTING.has(step.action) ? await cursorOf(deps, job) : null
    return async () => ({ state: { ...state, phase: 'ready', cursor }, after: { kind: 'again', atMs: undefined } })
  }
  if (state.refusal !== null) return finished(job, step, refused(state.refusal.code, state.refusal.error))
  if (step.action !== 'backup') return finished(job, step, await outcomeOf(deps, attempt, step))
  const backup = await backupOutcome(deps, job)
  if (backup !== undefined) return finished(job, step, backup)
  const atMs = deps.clock.nowMs() + BACKUP_LOOK_MS
  return async () => ({ after: { kind: 'again', atMs } })
}

/** Soon after a start of the daemon the node of a server may be on its way back: what is next there waits for it. */
async function awaitsNode(q: Queries, { isSettling, isOnline }: Deps, { input: { serverId } }: RunJob): Promise<boolean> {
  if (!isSettling()) return false
  const server = await findServerRow(q, serverId)
  return server !== undefined && !isOnline(server.nodeId)
}

async function cursorOf(deps: RunJobDeps, { input: { serverId } }: RunJob): Promise<RunState['cursor']> {
  const server = await findServerRow(deps.db.read, serverId)
  return server === undefined || !deps.isOnline(server.nodeId) ? null : await consoleCursor(deps, server)
}

/** Writes down how a step went, and whether the run goes on. */
function finished(job: RunJob, { continueOnFailure }: TaskStep, outcome: Outcome): Finish<RunState> {
  const { runId } = job.input
  const { number } = job.step
  return async (tx): Promise<StepEnd<RunState>> => {
    const error = outcome.ok ? null : outcome.error
    await rows.updateRunStep(tx, runId, number, { status: outcome.ok ? 'success' : 'failed', error, endedAt: tx.now })
    if (outcome.output != null) await keepOutput(tx, { runId, number, outcome })
    if (outcome.ok) return {}
    if (continueOnFailure && outcome.ends !== true) return { state: { ...job.state, failures: job.state.failures + 1 } }
    const said = job.input.steps.length === 1 ? outcome.error : `step ${number} (${job.step.name}): ${outcome.error}`
    return { after: { kind: 'fail', error: said, code: outcome.code } }
  }
}

async function keepOutput(
  tx: Tx,
  of: { readonly runId: string; readonly number: number; readonly outcome: Outcome },
): Promise<void> {
  const run = await rows.findRun(tx.q, of.runId)
  const { output } = of.outcome
  if (run === undefined || output == null) return
  const kept = rows.outputsOf(run)
  const left = SCHEDULE_LIMITS.outputBytes - Buffer.byteLength(JSON.stringify(kept))
  const all = { ...kept, [of.number]: within(output, Math.max(0, left)) }
  await rows.updateRun(tx, of.runId, { output: JSON.stringify(all) })
}
