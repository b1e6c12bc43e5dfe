import type { z } from 'zod'
import type { Job } from '../../../../shared/api/jobs.ts'
import type { Jobs } from '../../../jobs/jobs.ts'
import type { JobRow, StepRow } from '../../../jobs/rows.ts'
import { toSummary } from '../../../jobs/view.ts'

const MOST_NOTES = 100

/** A job with its steps as the API answers it. */
export function toJob(jobs: Pick<Jobs, 'notesOf'>, row: JobRow, steps: readonly StepRow[]): z.input<typeof Job> {
  const stepList = steps.map(({ id, number, name, status, attempts, error, errorCode, startedAt, endedAt }) => ({
    ...{ id, number, name, status, attempts, error, errorCode, startedAt, endedAt },
  }))
  return { ...toSummary(row), stepList, notes: jobs.notesOf(row).slice(0, MOST_NOTES) }
}
