import {
  getMigration,
  type MigrationDetail,
  type MigrationJob,
  type MigrationStep,
} from '../../../shared/api/migration.ts'
import { ERRORS, isErrorCode } from '../../../shared/kernel/errors.ts'
import type { MigrationId } from '../../../shared/kernel/ids.ts'
import { CLI_FAILURES, CliFailure, type CliFailureCode } from '../../kit/failure.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { column, type View } from '../../kit/output/view.ts'
import type { Run } from '../../kit/run.ts'
import { follow } from './follow.ts'
import { stepsIn } from './job.ts'
import { afterEvent, isEnd, type Progress, progressOf } from './progress.ts'
import { type Progressing, progressLines } from './progress-lines.ts'
import { serversLeftOut } from './report-text.ts'
import { MIGRATIONS, statusOf } from './views.ts'

/** What a migration has come to, for programs; the last line of `-o jsonl`. */
interface Result extends Omit<MigrationJob, 'jobId'> {
  readonly type: 'migration_result'
  readonly jobId: MigrationJob['jobId']
  readonly exitCode: number
  /** The first steps that have failed. */
  readonly failed: readonly MigrationStep[]
  readonly report: MigrationDetail['report']
}

const RESULTS: View<Result> = {
  id: (row) => row.id,
  name: (row) => row.sourceUrl,
  columns: [...MIGRATIONS.columns, column('EXIT', (row) => row.exitCode)],
}

const MOST_FAILED = 1000
const SHOWN_FAILED = 20
/** What the screen needs. */
const LEAST_ROWS = 12

/** How a waiting ended: with the migration, or without it. */
export type Ending =
  | { readonly kind: 'ended'; readonly job: MigrationJob }
  | { readonly kind: 'reached'; readonly job: MigrationJob }
  | { readonly kind: 'left'; readonly why: 'timeout' | 'interrupted'; readonly job: MigrationJob | undefined }

/** What is waited for. */
export interface Awaited {
  /** Until when, in milliseconds from now; without it to the end. */
  readonly timeoutMs: number | undefined
  /** A status that is enough, although it is no end. */
  readonly until?: MigrationJob['status']
}

/**
 * Shows a migration's progress until it has ended: a screen or lines on stderr, and with `-o jsonl` events on stdout. A time-out is exit
 * 124; an interruption says that the migration goes on.
 */
export async function waitFor(run: Run, jobId: MigrationId, { timeoutMs, until }: Awaited): Promise<Ending> {
  const late = new AbortController()
  const over = new AbortController()
  if (timeoutMs !== undefined)
    void run.clock.sleep(timeoutMs, over.signal).then(() => over.signal.aborted || late.abort())
  const signal = AbortSignal.any([run.signal, late.signal])
  const progressing = await progressingOn(run)
  let progress: Progress | undefined
  let job: MigrationJob | undefined
  try {
    for await (const seen of follow(run, jobId, signal)) {
      if (seen.kind === 'event') {
        if (run.out.format === 'jsonl')
          await run.out.entry({ id: seen.event.id, type: seen.event.type, ...seen.event.data })
        if (progress !== undefined) progress = afterEvent(progress, seen.event, run.clock.monotonicMs())
        if (seen.event.type === 'migration_paused' && until !== 'paused') progressing.say(pausedText(jobId))
      } else if (seen.kind === 'job') {
        if (job === undefined && seen.job.status === 'paused' && until !== 'paused') progressing.say(pausedText(jobId))
        job = seen.job
        progress = progressOf(job, seen.running, progress)
        // So a reader knows where it stands without having seen what came before.
        if (seen.anew && run.out.format === 'jsonl') await run.out.entry({ type: 'migration_job', job })
      } else if (seen.kind === 'cut' && progress !== undefined) {
        progress = { ...progress, cutOff: seen.reason }
      }
      if (progress !== undefined) progressing.show(progress)
      if (job !== undefined && isEnd(job.status)) return { kind: 'ended', job }
      if (job !== undefined && until !== undefined && progress?.status === until)
        return { kind: 'reached', job: { ...job, status: until, requested: null } }
    }
    return { kind: 'left', why: late.signal.aborted ? 'timeout' : 'interrupted', job }
  } finally {
    over.abort()
    progressing.end()
  }
}

/** A screen where a person looks at stderr and nothing else is written to that terminal, lines elsewhere, nothing with `--quiet`. */
async function progressingOn(run: Run): Promise<Progressing> {
  if (run.args.flag('quiet')) return { show: () => undefined, say: () => undefined, end: () => undefined }
  const { stdout, stderr } = run.terminal
  const isTrace = run.args.flag('debug') || run.args.flag('verbose') || run.env.debug
  const isShared = isTrace || (run.out.format === 'jsonl' && stdout.isTTY === true)
  const isPlain = run.args.choice('tui') === false || run.env.ci || run.env.dumbTerminal
  const isLow = (stderr.rows || LEAST_ROWS) < LEAST_ROWS
  if (stderr.isTTY !== true || isPlain || isShared || isLow) return progressLines(run)
  const { progressScreen } = await import('./progress-screen.tsx')
  return progressScreen(run)
}

function pausedText(jobId: string): string {
  return `it is paused, and waiting goes on: panel migration resume ${jobId}`
}

/** Waits for the end of a migration and answers with its exit code; what it has come to is written in the format that was asked for. */
export async function settle(run: Run, jobId: MigrationId, waiting: Awaited): Promise<number> {
  return settled(run, jobId, await waitFor(run, jobId, waiting))
}

/** The same once the waiting is over. */
export async function settled(run: Run, jobId: MigrationId, ending: Ending): Promise<number> {
  if (ending.kind === 'left') return leave(run, jobId, ending)
  return finish(run, ending.job)
}

/** Says what a migration has come to. */
async function finish(run: Run, job: MigrationJob): Promise<number> {
  const client = await run.client()
  const { report } = await client.call(getMigration, { params: { jobId: job.id } })
  const failed = job.progress.failed === 0 ? [] : await stepsIn(run, job.id, { status: 'failed', most: MOST_FAILED })
  const { exit, failure } = endOf(job)
  await writeResult(run, { ...withoutDetail(job), type: 'migration_result', exitCode: exit, failed, report })
  if (!run.out.machine) {
    for (const { action, name, error, errorCode } of failed.slice(0, SHOWN_FAILED))
      run.notice(oneLine(`failed: ${action} ${name}: ${error ?? errorCode ?? 'no reason is given'}`))
    if (failed.length > SHOWN_FAILED) run.notice(`and more: panel migration steps ${job.id} --failed`)
    const left = report === null ? 0 : serversLeftOut(job, report)
    if (left > 0) run.notice(`servers that have not come: ${left}; the report says why`)
    if (report !== null) run.notice(`panel migration report ${job.id}`)
  }
  if (failure !== undefined) throw failure
  if (exit === CLI_FAILURES.PARTIAL) {
    const what = job.config.verifyOf === null ? 'single things have failed' : 'it differs from the source'
    run.notice(`${what}: panel migration steps ${job.id} --failed`)
  }
  return exit
}

/** A detail is a job with more, which the result has by itself or leaves out. */
function withoutDetail(job: MigrationJob): MigrationJob {
  const { plan: _plan, report: _report, steps: _steps, ...rest } = job as MigrationJob & Partial<MigrationDetail>
  return rest
}

/** The migration goes on without whoever has waited; exit 124, or that of the signal. */
export async function leave(
  run: Run,
  jobId: MigrationId,
  { why, job }: Extract<Ending, { kind: 'left' }>,
): Promise<number> {
  const hint = `panel migration watch ${jobId}`
  const code: CliFailureCode = why === 'timeout' ? 'TIMEOUT' : 'INTERRUPTED'
  const exitCode = CLI_FAILURES[code]
  if (job !== undefined && run.out.format === 'jsonl') {
    await writeResult(run, { ...withoutDetail(job), type: 'migration_result', exitCode, failed: [], report: null })
  }
  if (why === 'timeout')
    throw new CliFailure('TIMEOUT', `the migration ${jobId} has not ended in time; it goes on`, { hint })
  run.notice(`\nstopped waiting; the migration goes on: ${hint}`)
  run.notice(`to end it: panel migration cancel ${jobId}`)
  return exitCode
}

async function writeResult(run: Run, result: Result): Promise<void> {
  if (run.out.format === 'jsonl') await run.out.entry(result)
  else await run.out.item(result, RESULTS)
}

interface End {
  readonly exit: number
  readonly failure?: CliFailure
}

/** What keeps a migration from beginning, and lies with whoever has asked for it. */
const REJECTED: ReadonlySet<string> = new Set([
  'PLAN_CONFLICT',
  'PLAN_DRIFT',
  'SOURCE_RIGHTS_MISSING',
  'AUTH',
  'DENIED',
  'NOT_A_SOURCE',
  'REJECTED',
  'MISSING',
  'VALIDATION_ERROR',
])

/** The exit code of a migration that has ended. */
export function endOf(job: MigrationJob): End {
  const { id, status, outcome, error, errorCode, progress } = job
  if (status === 'completed') return { exit: outcome === 'with_failures' ? CLI_FAILURES.PARTIAL : 0 }
  const isRefused = status === 'failed' && progress.completed + progress.failed + progress.skipped === 0
  const code = errorCode ?? ''
  const hint = HINTS[code] ?? `panel migration view ${id}`
  const message = error ?? `the migration is ${statusOf(job)}`
  if (isRefused && REJECTED.has(code)) return ended('REJECTED', message, hint)
  const known = isRefused && isErrorCode(code) ? ERRORS[code].exit : undefined
  if (known === CLI_FAILURES.NODE_OFFLINE) return ended('NODE_OFFLINE', message, 'panel migration nodes')
  if (known === CLI_FAILURES.HOST_PRECONDITION) return ended('HOST_PRECONDITION', message, hint)
  return ended('OPERATION_FAILED', message, hint)
}

const HINTS: Readonly<Record<string, string>> = {
  PLAN_CONFLICT: 'panel migration view latest lists them, with the option that decides each',
  PLAN_DRIFT: 'look at it: panel migration plan --out plan.json, or --allow-drift',
  SOURCE_RIGHTS_MISSING: 'an account key of an administrator of the source opens all that is needed',
  AUTH: 'panel migration test with the same keys',
}

function ended(code: CliFailureCode, message: string, hint: string): End {
  return { exit: CLI_FAILURES[code], failure: new CliFailure(code, message, { hint }) }
}
