import { z } from 'zod'
import { IsoTime } from './time.ts'

/**
 * Where a job stands. `queued`: its next attempt is due, waits for its time, or for its turn in the lane; `running`: a step is
 * under way; `waiting`: for the jobs that it has started; `paused`: by somebody, until resumed. The others are ends.
 */
export const JobStatus = z.enum(['queued', 'running', 'waiting', 'paused', 'succeeded', 'failed', 'cancelled'])
export type JobStatus = z.infer<typeof JobStatus>

/** Where a step stands. A `failed` one has used up its attempts, or a further one would change nothing. */
export const JobStepStatus = z.enum(['pending', 'running', 'succeeded', 'failed'])
export type JobStepStatus = z.infer<typeof JobStepStatus>

/** How far a job is, in a unit that its kind counts in; `total` is `null` while nobody knows it. */
export const JobProgress = z.object({
  done: z.number().nonnegative(),
  total: z.number().nonnegative().nullable(),
  unit: z.enum(['bytes', 'items', 'percent']),
  /** What it works on, for people. */
  text: z.string().max(200).nullable(),
})
export type JobProgress = z.infer<typeof JobProgress>

/** A job as lists and events show it. */
export const JobSummary = z.object({
  id: z.string(),
  kind: z.string(),
  title: z.string(),
  status: JobStatus,
  /** What has been asked of it while a step runs, which holds at the end of that step. */
  requested: z.enum(['pause', 'cancel']).nullable(),
  serverId: z.string().nullable(),
  nodeId: z.string().nullable(),
  parentId: z.string().nullable(),
  /** On whose behalf it runs; `null`: the panel's own. */
  userId: z.string().nullable(),
  /** What has started it, such as `schedule nightly`. */
  cause: z.string(),
  steps: z.object({ done: z.int(), total: z.int(), current: z.string().nullable() }),
  progress: JobProgress.nullable(),
  /** Why the last attempt failed. */
  error: z.string().nullable(),
  errorCode: z.string().nullable(),
  /** When the next attempt is due, where it waits for one. */
  nextAttemptAt: IsoTime.nullable(),
  createdAt: IsoTime,
  startedAt: IsoTime.nullable(),
  endedAt: IsoTime.nullable(),
  updatedAt: IsoTime,
})
export type JobSummary = z.infer<typeof JobSummary>
