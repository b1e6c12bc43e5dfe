import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { ServerId, TaskId, TaskRunId, UserId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import {
  MissedRuns,
  SCHEDULE_LIMITS,
  TaskAction,
  TaskRunCause,
  TaskRunStatus,
  TaskRunStep,
  TaskStep,
} from '../kernel/schedule.ts'
import { TimeZone } from '../kernel/setting-values.ts'
import { Instant, IsoTime } from '../kernel/time.ts'
import { LineStream } from '../protocol/console.ts'

/** A schedule of a server, which the paths call a task. */
export const Task = z.object({
  id: TaskId,
  serverId: ServerId,
  name: z.string(),
  description: z.string().nullable(),
  /** Those of the only step; `null` where there are several. */
  action: TaskAction.nullable(),
  payload: z.record(z.string(), z.unknown()).nullable(),
  timeOffset: z.int(),
  /** Always `null`: the order of steps is that of `steps`. */
  sequenceId: z.null(),
  steps: z.array(TaskStep),
  /** The cron text as it was given. */
  schedule: z.string(),
  timezone: z.string(),
  enabled: z.boolean(),
  /** It is not enabled because its server is suspended, and is again when that ends. */
  disabledBySuspension: z.boolean(),
  onlyWhenOnline: z.boolean(),
  missed: MissedRuns,
  /** On whose behalf it runs, by the rights that they have then; `null`: the account is gone. */
  owner: z.object({ id: UserId, username: z.string() }).nullable(),
  lastRunAt: IsoTime.nullable(),
  nextRunAt: IsoTime.nullable(),
  lastStatus: z.enum(['running', 'success', 'failed', 'skipped']).nullable(),
  lastError: z.string().nullable(),
  /** The run that is under way. */
  runId: TaskRunId.nullable(),
  runCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Task = z.infer<typeof Task>

/** A run as the history lists it. */
export const TaskRun = z.object({
  id: TaskRunId,
  taskId: TaskId,
  serverId: ServerId,
  status: TaskRunStatus,
  cause: TaskRunCause,
  /** Who has started it by hand. */
  userId: UserId.nullable(),
  /** The job that carries it out; `null` where it was skipped. */
  jobId: z.string().nullable(),
  /** An error code, or of one that was skipped `SERVER_SUSPENDED`, `NODE_OFFLINE`, `SERVER_NOT_RUNNING`, `STILL_RUNNING` or `MISSED`. */
  reason: z.string().nullable(),
  error: z.string().nullable(),
  /** When it was to begin. */
  dueAt: IsoTime,
  startedAt: IsoTime.nullable(),
  endedAt: IsoTime.nullable(),
  steps: z.array(TaskRunStep),
})
export type TaskRun = z.infer<typeof TaskRun>

/** Console lines that came while a step was under way. */
export const TaskOutput = z.object({
  lines: z.array(z.object({ stream: LineStream, data: z.string(), timestamp: IsoTime })),
  /** There were more than are kept. */
  truncated: z.boolean(),
})
export type TaskOutput = z.infer<typeof TaskOutput>

/** A run with what the console has said meanwhile. */
export const TaskRunDetail = TaskRun.extend({
  /** `output` is `null` for a caller without console.read, and where nothing could be read. */
  steps: z.array(TaskRunStep.extend({ output: TaskOutput.nullable() })),
})
export type TaskRunDetail = z.infer<typeof TaskRunDetail>

const params = { serverId: ServerId }
const one = { serverId: ServerId, taskId: TaskId }
const Name = z.string().trim().min(1).max(100)
const Schedule = z.string().trim().min(1).max(200)

/** What a schedule does: `steps`, or one step as `action`, `payload` and `timeOffset`. */
const work = {
  steps: z.array(TaskStep).min(1).max(SCHEDULE_LIMITS.steps).optional(),
  action: TaskAction.optional(),
  payload: z
    .object({
      command: z.string().max(4096).optional(),
      graceSeconds: z.int().optional(),
      seconds: z.int().optional(),
      name: z.string().max(120).optional(),
      ignored: z.array(z.string().max(1000)).max(100).optional(),
    })
    .optional(),
  timeOffset: z.int().min(0).max(SCHEDULE_LIMITS.offsetSeconds).optional(),
}

const errors = ['SERVER_NOT_FOUND', 'SERVER_SUSPENDED'] as const
const oneErrors = [...errors, 'TASK_NOT_FOUND'] as const

export const listTasks = defineEndpoint({
  id: 'tasks.list',
  tag: 'Servers',
  summary: 'List the schedules of a server',
  method: 'GET',
  path: '/api/servers/:serverId/tasks',
  access: { server: ['server.schedule'] },
  params,
  query: pageQuery(),
  response: z.array(Task),
  paged: true,
  errors,
})

export const createTask = defineEndpoint({
  id: 'tasks.create',
  tag: 'Servers',
  summary: 'Create a schedule: what a server does at certain times',
  method: 'POST',
  path: '/api/servers/:serverId/tasks',
  /** And what each of the steps needs: it runs with the rights of whoever has made it. */
  access: { server: ['server.schedule'] },
  params,
  body: z.object({
    name: Name,
    description: z.string().max(500).nullish(),
    /** A cron text of five fields, or a name such as `@daily`. */
    schedule: Schedule,
    /** Without it that of the server, or else that of the panel. */
    timezone: TimeZone.optional(),
    enabled: z.boolean().default(true),
    onlyWhenOnline: z.boolean().default(false),
    missed: MissedRuns.default('once'),
    ...work,
  }),
  response: Task,
  status: 201,
  errors: [...errors, 'SERVER_INVALID_STATE', 'TASK_LIMIT_REACHED'],
  audit: { action: 'task.create' },
})

export const previewTask = defineEndpoint({
  id: 'tasks.preview',
  tag: 'Servers',
  summary: 'Show when a cron text is due next, before anything is saved',
  method: 'GET',
  path: '/api/servers/:serverId/tasks/preview',
  access: { server: ['server.schedule'] },
  params,
  query: z.object({
    schedule: Schedule,
    timezone: TimeZone.optional(),
    /** Times after this; now if it is left out. */
    after: Instant.optional(),
    count: z.coerce.number().int().min(1).max(100).default(10),
  }),
  response: z.object({
    schedule: z.string(),
    timezone: z.string(),
    /** `local` is the same instant on the clocks of the time zone, with their offset. */
    runs: z.array(z.object({ at: IsoTime, local: z.string() })),
  }),
  errors,
})

export const getTask = defineEndpoint({
  id: 'tasks.get',
  tag: 'Servers',
  summary: 'Show a schedule of a server',
  method: 'GET',
  path: '/api/servers/:serverId/tasks/:taskId',
  access: { server: ['server.schedule'] },
  params: one,
  response: Task,
  errors: oneErrors,
})

export const updateTask = defineEndpoint({
  id: 'tasks.update',
  tag: 'Servers',
  summary: 'Change a schedule; whoever changes its steps is whom it runs for from then on',
  method: 'PUT',
  path: '/api/servers/:serverId/tasks/:taskId',
  access: { server: ['server.schedule'] },
  params: one,
  body: z.object({
    name: Name.optional(),
    description: z.string().max(500).nullish(),
    schedule: Schedule.optional(),
    timezone: TimeZone.optional(),
    enabled: z.boolean().optional(),
    onlyWhenOnline: z.boolean().optional(),
    missed: MissedRuns.optional(),
    ...work,
  }),
  response: Task,
  errors: oneErrors,
  audit: { action: 'task.update' },
})

export const deleteTask = defineEndpoint({
  id: 'tasks.delete',
  tag: 'Servers',
  summary: 'Delete a schedule with its history; a run that is under way is aborted',
  method: 'DELETE',
  path: '/api/servers/:serverId/tasks/:taskId',
  access: { server: ['server.schedule'] },
  params: one,
  response: NoData,
  errors: oneErrors,
  audit: { action: 'task.delete' },
})

export const executeTask = defineEndpoint({
  id: 'tasks.execute',
  tag: 'Servers',
  summary: 'Run a schedule now, also one that is disabled, with the rights of whoever asks',
  method: 'POST',
  path: '/api/servers/:serverId/tasks/:taskId/execute',
  access: { server: ['server.schedule'] },
  params: one,
  response: z.object({ status: z.literal('running'), runId: TaskRunId, jobId: z.string() }),
  status: 202,
  errors: [...oneErrors, 'TASK_ALREADY_RUNNING', 'SERVER_INVALID_STATE', 'NODE_OFFLINE'],
  audit: { action: 'task.run' },
})

export const abortTask = defineEndpoint({
  id: 'tasks.abort',
  tag: 'Servers',
  summary: 'Abort the run of a schedule that is under way; what its steps have done stays done',
  method: 'POST',
  path: '/api/servers/:serverId/tasks/:taskId/abort',
  access: { server: ['server.schedule'] },
  params: one,
  response: z.object({ status: z.literal('aborting'), runId: TaskRunId }),
  status: 202,
  errors: [...oneErrors, 'TASK_NOT_RUNNING'],
  audit: { action: 'task.abort' },
})

export const listTaskRuns = defineEndpoint({
  id: 'tasks.runs',
  tag: 'Servers',
  summary: 'List the last runs of a schedule, newest first',
  method: 'GET',
  path: '/api/servers/:serverId/tasks/:taskId/runs',
  access: { server: ['server.schedule'] },
  params: one,
  query: pageQuery().extend({ status: TaskRunStatus.optional() }),
  response: z.array(TaskRun),
  paged: true,
  errors: oneErrors,
})

export const getTaskRun = defineEndpoint({
  id: 'tasks.run',
  tag: 'Servers',
  summary: 'Show a run of a schedule with its steps and what the console has said meanwhile',
  method: 'GET',
  path: '/api/servers/:serverId/tasks/:taskId/runs/:taskRunId',
  access: { server: ['server.schedule'] },
  params: { ...one, taskRunId: TaskRunId },
  response: TaskRunDetail,
  errors: [...oneErrors, 'TASK_RUN_NOT_FOUND'],
})
