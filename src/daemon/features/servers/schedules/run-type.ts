import { z } from 'zod'
import { permissionsOf, TaskStep } from '../../../../shared/kernel/schedule.ts'
import { IsoTime } from '../../../../shared/kernel/time.ts'
import { defineJob } from '../../../jobs/job-type.ts'

/** What a run is about. The steps are those of the moment when it began: a change of the schedule is for the next one. */
export const RunInput = z.object({
  runId: z.string(),
  scheduleId: z.string(),
  serverId: z.string(),
  name: z.string(),
  steps: z.array(TaskStep),
})
export type RunInput = z.infer<typeof RunInput>

/** How far the present step is. */
export const RunState = z.object({
  /** The step that the rest is about, from 1. */
  number: z.int(),
  /** `waiting`: for its offset, or as its work; `ready`: what it does is next; `acting`: that was started. */
  phase: z.enum(['waiting', 'ready', 'acting']),
  until: IsoTime.nullable(),
  /** What was waited for in all: a clock that is set back makes no wait longer. */
  waitMs: z.number(),
  /** Where the console was before the step. */
  cursor: z.object({ epoch: z.string(), last: z.int() }).nullable(),
  /** The order that a power step has given; `null` where the server was in that state already. */
  commandId: z.string().nullable(),
  /** When the process ran since that the order was to end. */
  startedBefore: z.string().nullable(),
  /** The job that a backup step has added. */
  backupJobId: z.string().nullable(),
  refusal: z.object({ code: z.string(), error: z.string() }).nullable(),
  actedAt: IsoTime.nullable(),
  /** Steps that have failed and were gone on from. */
  failures: z.int(),
})
export type RunState = z.infer<typeof RunState>

export const FIRST_STATE: RunState = {
  ...{ number: 0, phase: 'waiting', until: null, waitMs: 0, cursor: null, commandId: null, startedBefore: null },
  ...{ backupJobId: null, refusal: null, actedAt: null, failures: 0 },
}

/** One run of a schedule: a job whose steps are those of the schedule. What waits takes up no place of the pool. */
export const RUN = defineJob({
  kind: 'schedules.run',
  input: RunInput,
  state: RunState,
  first: () => FIRST_STATE,
  title: ({ name }) => `Schedule ${name}`,
  pool: { name: 'schedules', size: 1024 },
  lane: ({ scheduleId }) => scheduleId,
  ordered: false,
  background: false,
  plan: ({ steps }) => steps.map(({ action }) => ({ step: 'step', name: action })),
  needs: ({ serverId, steps }) => ({ server: serverId, permissions: ['server.schedule', ...permissionsOf(steps)] }),
})
