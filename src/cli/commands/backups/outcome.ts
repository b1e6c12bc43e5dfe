import type { Job } from '../../../shared/api/jobs.ts'
import { getJob } from '../../../shared/api/jobs.ts'
import { CliFailure } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { waitForJob } from '../jobs/watch.ts'
import { wantsToWait } from '../servers/power.ts'

const LOOK_MS = 500
/** A backup takes longer than an order. */
const DEFAULT_MS = 6 * 3600_000

/** Waits for a job where that is wanted; `undefined` when it is not, or there is none. One that has failed is exit 11. */
export async function outcomeOf(
  run: Run,
  jobId: string | null,
  { alone = true }: { readonly alone?: boolean } = {},
): Promise<Job | undefined> {
  if (jobId === null || !wantsToWait(run)) return undefined
  const stopped = (): void => run.notice(`\nstopped waiting; it continues: panel jobs watch ${jobId}`)
  run.signal.addEventListener('abort', stopped)
  try {
    const job = alone ? await waitForJob(run, jobId, timeoutOf(run)) : await waitQuietly(run, jobId)
    if (job.status === 'succeeded') return job
    const hint = `panel jobs view ${jobId}`
    throw new CliFailure('OPERATION_FAILED', `${job.title}: ${job.error ?? job.status}`, { hint })
  } finally {
    run.signal.removeEventListener('abort', stopped)
  }
}

function timeoutOf(run: Run): number {
  return run.args.duration('timeout') ?? DEFAULT_MS
}

/** One of several: their progress would overwrite each other's. */
async function waitQuietly(run: Run, jobId: string): Promise<Job> {
  const until = run.clock.monotonicMs() + timeoutOf(run)
  for (;;) {
    const job = await call(run, getJob, { params: { jobId } })
    if (job.endedAt !== null) return job
    if (run.clock.monotonicMs() >= until) {
      const hint = `panel jobs watch ${jobId}`
      throw new CliFailure('TIMEOUT', `${job.title} has not ended in time`, { hint })
    }
    await run.clock.sleep(LOOK_MS, run.signal)
    run.signal.throwIfAborted()
  }
}
