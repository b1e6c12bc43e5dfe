import * as api from '../../../shared/api/jobs.ts'
import type { JobSummary } from '../../../shared/kernel/job.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { JOBS, progressText, statusOf } from './views.ts'

const LOOK_MS = 500
/** Where nobody sits at a terminal, a line comes at least so often. */
const LINE_MS = 5000
const BAR = 20

/** `panel jobs watch`: follows a job to its end. */
export const watchJob: Action = async (run) => {
  const jobId = run.args.required('job')
  const job = await waitForJob(run, jobId, run.args.duration('timeout'))
  await run.out.item(job, JOBS)
  if (job.status === 'succeeded') return 0
  throw new CliFailure('OPERATION_FAILED', `${job.title}: ${job.error ?? job.status}`, {
    hint: `panel jobs view ${jobId}`,
  })
}

/** Shows a job's progress on stderr until it has ended; exit 124 when the time passes. */
export async function waitForJob(run: Run, jobId: string, timeoutMs: number | undefined): Promise<api.Job> {
  const started = run.clock.monotonicMs()
  const show = progressOn(run)
  for (;;) {
    const job = await call(run, api.getJob, { params: { jobId } })
    if (job.endedAt !== null) {
      show(undefined)
      return job
    }
    show(job)
    const passed = run.clock.monotonicMs() - started
    if (timeoutMs !== undefined && passed >= timeoutMs) {
      show(undefined)
      const hint = `panel jobs watch ${jobId}`
      throw new CliFailure('TIMEOUT', `${job.title} has not ended within ${Math.round(passed / 1000)} s`, { hint })
    }
    await run.clock.sleep(Math.min(LOOK_MS, (timeoutMs ?? Number.POSITIVE_INFINITY) - passed), run.signal)
    run.signal.throwIfAborted()
  }
}

/** Shows a job in one line that is drawn again at a terminal, and in lines that say something new elsewhere. */
function progressOn(run: Run): (job: JobSummary | undefined) => void {
  if (run.args.flag('quiet')) return () => undefined
  const started = run.clock.monotonicMs()
  const atTerminal = run.terminal.stderr.isTTY === true
  let last = { text: '', atMs: Number.NEGATIVE_INFINITY }
  return (job) => {
    if (job === undefined) {
      if (atTerminal) run.terminal.progress('')
      return
    }
    const nowMs = run.clock.monotonicMs()
    const text = `${job.title}  ${describe(job)}`
    if (atTerminal) return run.terminal.progress(`${barOf(job)} ${text}  ${Math.round((nowMs - started) / 1000)} s`)
    if (text === last.text && nowMs - last.atMs < LINE_MS) return
    last = { text, atMs: nowMs }
    run.notice(text)
  }
}

function describe(job: JobSummary): string {
  const { steps, progress } = job
  const at =
    steps.total > 1 ? `step ${Math.min(steps.done + 1, steps.total)}/${steps.total} ${steps.current ?? ''}` : ''
  const parts = [statusOf(job), at, progress === null ? '' : progressText(progress), job.error ?? '']
  return parts.filter((part) => part !== '').join(', ')
}

function barOf({ steps, progress }: JobSummary): string {
  const step = progress === null || progress.total === null || progress.total === 0 ? 0 : progress.done / progress.total
  const share = steps.total === 0 ? 0 : Math.min(1, (steps.done + Math.min(1, step)) / steps.total)
  const full = Math.round(share * BAR)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR - full)}]`
}
