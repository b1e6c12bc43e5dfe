import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { JobId, JobStepId, NodeId, ServerId, UserId } from '../kernel/ids.ts'
import { JobStatus, JobStepStatus, JobSummary } from '../kernel/job.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

const params = { jobId: JobId }

/** One step of a job. */
export const JobStep = z.object({
  id: JobStepId,
  /** From 1, in the order in which they are carried out. */
  number: z.int(),
  name: z.string(),
  status: JobStepStatus,
  attempts: z.int(),
  error: z.string().nullable(),
  errorCode: z.string().nullable(),
  startedAt: IsoTime.nullable(),
  endedAt: IsoTime.nullable(),
})
export type JobStep = z.infer<typeof JobStep>

/** A job with its steps; at most the first thousand. */
export const Job = JobSummary.extend({
  stepList: z.array(JobStep),
  /** What its result is to be known with, such as what it has left out; at most the first hundred. */
  notes: z.array(z.string()),
})
export type Job = z.infer<typeof Job>

export const listJobs = defineEndpoint({
  id: 'jobs.list',
  tag: 'Admin',
  summary: 'List jobs that you may see, newest first',
  method: 'GET',
  path: '/api/jobs',
  access: 'session',
  query: pageQuery().extend({
    status: JobStatus.optional(),
    /** Only those that have not ended, or only those that have. */
    ended: QueryBoolean.optional(),
    kind: z.string().max(100).optional(),
    serverId: ServerId.optional(),
    nodeId: NodeId.optional(),
    userId: UserId.optional(),
    parentId: JobId.optional(),
    /** Also what the panel does by itself again and again, such as upkeep and deliveries. */
    background: QueryBoolean.default(false),
  }),
  response: z.array(JobSummary),
  paged: true,
})

export const getJob = defineEndpoint({
  id: 'jobs.get',
  tag: 'Admin',
  summary: 'Show a job with its steps',
  method: 'GET',
  path: '/api/jobs/:jobId',
  access: 'session',
  params,
  response: Job,
  errors: ['JOB_NOT_FOUND'],
})

export const pauseJob = defineEndpoint({
  id: 'jobs.pause',
  tag: 'Admin',
  summary: 'Pause a job at the end of the step that runs',
  method: 'POST',
  path: '/api/jobs/:jobId/pause',
  access: 'session',
  params,
  response: Job,
  errors: ['JOB_NOT_FOUND', 'JOB_ENDED', 'JOB_NOT_CONTROLLABLE'],
  audit: { action: 'job.pause' },
})

export const resumeJob = defineEndpoint({
  id: 'jobs.resume',
  tag: 'Admin',
  summary: 'Go on with a paused job',
  method: 'POST',
  path: '/api/jobs/:jobId/resume',
  access: 'session',
  params,
  response: Job,
  errors: ['JOB_NOT_FOUND', 'JOB_ENDED', 'JOB_NOT_CONTROLLABLE'],
  audit: { action: 'job.resume' },
})

export const cancelJob = defineEndpoint({
  id: 'jobs.cancel',
  tag: 'Admin',
  summary: 'Cancel a job and what it has started; what its steps have done stays done',
  method: 'POST',
  path: '/api/jobs/:jobId/cancel',
  access: 'session',
  params,
  response: Job,
  errors: ['JOB_NOT_FOUND', 'JOB_ENDED', 'JOB_NOT_CONTROLLABLE'],
  audit: { action: 'job.cancel' },
})

export const retryJobStep = defineEndpoint({
  id: 'jobs.retry_step',
  tag: 'Admin',
  summary: 'Try a failed step of a job again and go on from there',
  method: 'POST',
  path: '/api/jobs/:jobId/steps/:stepId/retry',
  access: 'session',
  params: { ...params, stepId: JobStepId },
  response: Job,
  errors: [
    'JOB_NOT_FOUND',
    'JOB_STEP_NOT_FOUND',
    'JOB_STEP_NOT_FAILED',
    'JOB_STEP_NOT_RETRYABLE',
    'JOB_NOT_CONTROLLABLE',
  ],
  audit: { action: 'job.retry_step' },
})
