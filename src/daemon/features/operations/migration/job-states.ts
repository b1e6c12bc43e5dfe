import type { MigrationJobStatus } from '../../../../shared/kernel/migration.ts'

/** What happens to a migration. */
export type JobEvent =
  /** The engine begins with it. */
  | 'taken'
  /** The plan is made and nothing in it stands in the way. */
  | 'planned'
  /** The plan is made and was all that was asked for. */
  | 'planned_only'
  /** It cannot begin: a conflict of the plan, keys that are refused, a source that does not answer. */
  | 'refused'
  | 'pause'
  | 'resume'
  | 'retry_step'
  | 'cancel'
  /** Something was requested, and no step is under way any more. */
  | 'drained'
  /** All steps have ended, and none that is required has failed. */
  | 'all_ended'
  /** A required step has failed, or more have than may. */
  | 'given_up'

/** Where a migration stands, and what was asked of it. */
export interface JobState {
  readonly status: MigrationJobStatus
  readonly requested: 'pause' | 'cancel' | null
}

/** One row of the table: in these states this event leads there. Events that no row names are refused and change nothing. */
interface JobRow {
  readonly from: readonly MigrationJobStatus[]
  readonly event: JobEvent
  /** Only where this was requested; without it, whatever was. */
  readonly requested?: 'pause' | 'cancel'
  /** Only where the plan is made, or is not. */
  readonly hasPlan?: boolean
  readonly to: MigrationJobStatus | 'same'
  /** What is requested afterwards; nothing if not given. */
  readonly asks?: 'pause' | 'cancel'
}

/** All transitions of migrations. The first row that fits holds. */
export const JOB_TRANSITIONS: readonly JobRow[] = [
  { from: ['pending'], event: 'taken', to: 'validating' },
  // A request that came while the source was read holds before anything is written.
  { from: ['validating'], event: 'planned', requested: 'cancel', to: 'cancelled' },
  { from: ['validating'], event: 'planned', requested: 'pause', to: 'paused' },
  { from: ['validating'], event: 'planned', to: 'running' },
  { from: ['validating'], event: 'planned_only', requested: 'cancel', to: 'cancelled' },
  { from: ['validating'], event: 'planned_only', to: 'completed' },
  { from: ['validating'], event: 'refused', requested: 'cancel', to: 'cancelled' },
  { from: ['validating'], event: 'refused', to: 'failed' },
  { from: ['pending'], event: 'pause', to: 'paused' },
  // Who has asked to cancel is not overtaken by a pause.
  { from: ['validating', 'running'], event: 'pause', requested: 'cancel', to: 'same', asks: 'cancel' },
  { from: ['validating', 'running'], event: 'pause', to: 'same', asks: 'pause' },
  { from: ['paused', 'failed'], event: 'resume', hasPlan: true, to: 'running' },
  { from: ['paused', 'failed'], event: 'resume', hasPlan: false, to: 'pending' },
  { from: ['paused', 'failed', 'completed'], event: 'retry_step', to: 'running' },
  { from: ['pending'], event: 'cancel', to: 'cancelled' },
  { from: ['validating', 'running'], event: 'cancel', to: 'same', asks: 'cancel' },
  // The steps that put the source back run first, so it is running again until these have ended.
  { from: ['paused', 'failed'], event: 'cancel', hasPlan: true, to: 'running', asks: 'cancel' },
  { from: ['paused', 'failed'], event: 'cancel', hasPlan: false, to: 'cancelled' },
  { from: ['validating', 'running'], event: 'drained', requested: 'pause', to: 'paused' },
  { from: ['validating', 'running'], event: 'drained', requested: 'cancel', to: 'cancelled' },
  // A pause or a cancel during the last step holds, although nothing is left to do.
  { from: ['running'], event: 'all_ended', requested: 'cancel', to: 'cancelled' },
  { from: ['running'], event: 'all_ended', requested: 'pause', to: 'paused' },
  { from: ['running'], event: 'all_ended', to: 'completed' },
  { from: ['running'], event: 'given_up', requested: 'cancel', to: 'cancelled' },
  { from: ['running'], event: 'given_up', to: 'failed' },
]

/** The state after an event; `undefined`: it is refused. */
export function afterJobEvent(
  state: JobState,
  event: JobEvent,
  { hasPlan }: { hasPlan: boolean },
): JobState | undefined {
  const row = JOB_TRANSITIONS.find(
    (one) =>
      one.event === event &&
      one.from.includes(state.status) &&
      (one.requested === undefined || one.requested === state.requested) &&
      (one.hasPlan === undefined || one.hasPlan === hasPlan),
  )
  if (row === undefined) return undefined
  return { status: row.to === 'same' ? state.status : row.to, requested: row.asks ?? null }
}

/** Whether a migration is in the state already that was asked for, so that asking again changes nothing and is no error. */
export function isAlready(state: JobState, event: 'pause' | 'cancel'): boolean {
  return event === 'pause' ? state.status === 'paused' : state.status === 'cancelled'
}
