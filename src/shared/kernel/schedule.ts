import { z } from 'zod'
import type { Permission } from './permissions.ts'
import { POWER_PERMISSIONS, PowerAction } from './server-life.ts'

/** How much there may be of schedules: per server, of steps in one, and of runs that are kept of each. */
export const SCHEDULE_LIMITS = {
  perServer: 100,
  steps: 20,
  offsetSeconds: 900,
  waitSeconds: 3600,
  runsKept: 50,
  /** Of the kept runs, those that were skipped. */
  skippedKept: 20,
  /** Console lines that a run keeps of each step, and their bytes in all. */
  outputLines: 100,
  outputBytes: 32_768,
} as const

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is refused
const OneLine = z.string().regex(/^[^\r\n\u0000]*$/, 'must be one line')

/** One line that is typed into a console. */
export const ConsoleCommand = OneLine.max(4096).refine((text) => text.trim() !== '', 'must not be empty')

/** What a step of a schedule does. */
export const TaskAction = z.enum(['command', ...PowerAction.options, 'backup', 'wait'])
export type TaskAction = z.infer<typeof TaskAction>

const common = {
  /** So many seconds after the step before has ended; the first after the run has begun. */
  timeOffset: z.int().min(0).max(SCHEDULE_LIMITS.offsetSeconds).default(0),
  /** The next step follows also when this one fails. */
  continueOnFailure: z.boolean().default(false),
}

/** One step of a schedule: its action with what that needs. */
export const TaskStep = z.discriminatedUnion('action', [
  z.object({ action: z.literal('command'), payload: z.object({ command: ConsoleCommand }), ...common }),
  z.object({
    action: PowerAction,
    /** How long a stop may take before signals follow, in place of the server's own time. */
    payload: z.object({ graceSeconds: z.int().min(0).max(600).optional() }).default({}),
    ...common,
  }),
  z.object({
    action: z.literal('backup'),
    payload: z
      .object({
        name: z.string().trim().min(1).max(120).optional(),
        /** Patterns of what is left out. */
        ignored: z.array(OneLine.min(1).max(1000)).max(100).optional(),
      })
      .default({}),
    ...common,
  }),
  z.object({
    action: z.literal('wait'),
    payload: z.object({ seconds: z.int().min(1).max(SCHEDULE_LIMITS.waitSeconds) }),
    ...common,
  }),
])
export type TaskStep = z.infer<typeof TaskStep>

/** What becomes of a run whose time has passed while the daemon could not begin it: nothing, or one run for all of them. */
export const MissedRuns = z.enum(['skip', 'once'])
export type MissedRuns = z.infer<typeof MissedRuns>

/** What has begun a run: its time, a time that was missed, or somebody by hand. */
export const TaskRunCause = z.enum(['schedule', 'missed', 'manual'])
export type TaskRunCause = z.infer<typeof TaskRunCause>

export const TaskRunStatus = z.enum(['running', 'success', 'failed', 'skipped', 'aborted'])
export type TaskRunStatus = z.infer<typeof TaskRunStatus>

/** How far one step of a run is. `skipped`: the run ended before it. */
export const TaskRunStep = z.object({
  number: z.int(),
  action: TaskAction,
  status: z.enum(['pending', 'running', 'success', 'failed', 'skipped']),
  error: z.string().nullable(),
  /** The order to the node, of a power step. */
  commandId: z.string().nullable(),
  /** The job that makes the backup, of a backup step. */
  jobId: z.string().nullable(),
  startedAt: z.string().nullable(),
  endedAt: z.string().nullable(),
})
export type TaskRunStep = z.infer<typeof TaskRunStep>

/** What whoever has these steps run needs on the server, beside `server.schedule`. */
export function permissionsOf(steps: readonly Pick<TaskStep, 'action'>[]): Permission[] {
  return [...new Set(steps.flatMap(({ action }) => PERMISSIONS[action]))]
}

const PERMISSIONS: Readonly<Record<TaskAction, readonly Permission[]>> = {
  ...POWER_PERMISSIONS,
  command: ['console.write'],
  backup: ['backup.create'],
  wait: [],
}
