import type { MigrationStepStatus } from '../../../../shared/kernel/migration.ts'

/** What happens to a step. */
export type StepEvent =
  /** What it needs is there, its time has come and there is room: an attempt begins. */
  | 'begin'
  /** Something that it needs has failed or was left out. */
  | 'need_lost'
  /** What it would bring is there, or is not wanted. */
  | 'not_needed'
  | 'done'
  /** The attempt failed; another one may succeed, and one is left. */
  | 'try_again'
  /** Another attempt would fail alike, or none is left. */
  | 'give_up'
  /** The migration was paused at a place where the step can go on later. */
  | 'set_aside'
  | 'cancel'
  /** The process ended under it. */
  | 'lost'
  | 'retry'
  /** The source, or a node, wants to be left alone for a while: that is no attempt. */
  | 'wait'
  /** A step that it follows is tried again: what it puts back or adds up is so anew. */
  | 'repeat'

/** One row of the table. Events that no row names are refused and change nothing. */
interface StepRow {
  readonly from: MigrationStepStatus
  readonly event: StepEvent
  readonly to: MigrationStepStatus
  /** How attempts are counted: one more, one less, begun anew, or unchanged. */
  readonly attempts?: 'count' | 'reset' | 'uncount'
  /** Only of steps that may be tried again. */
  readonly retryable?: true
  /** Only of steps that were skipped because something that they need was lost. */
  readonly needLost?: true
}

/** All transitions of steps. */
export const STEP_TRANSITIONS: readonly StepRow[] = [
  { from: 'pending', event: 'begin', to: 'running', attempts: 'count' },
  { from: 'pending', event: 'need_lost', to: 'skipped' },
  { from: 'pending', event: 'not_needed', to: 'skipped' },
  { from: 'running', event: 'not_needed', to: 'skipped' },
  { from: 'running', event: 'done', to: 'completed' },
  { from: 'running', event: 'try_again', to: 'pending' },
  { from: 'running', event: 'give_up', to: 'failed' },
  { from: 'running', event: 'set_aside', to: 'pending', attempts: 'uncount' },
  { from: 'running', event: 'cancel', to: 'failed' },
  { from: 'running', event: 'lost', to: 'pending' },
  { from: 'running', event: 'wait', to: 'pending', attempts: 'uncount' },
  { from: 'completed', event: 'repeat', to: 'pending', attempts: 'reset' },
  { from: 'failed', event: 'repeat', to: 'pending', attempts: 'reset' },
  { from: 'failed', event: 'retry', to: 'pending', attempts: 'reset', retryable: true },
  // With the step for whose sake they were skipped.
  { from: 'skipped', event: 'retry', to: 'pending', attempts: 'reset', needLost: true },
  { from: 'pending', event: 'cancel', to: 'skipped' },
]

/** What a step looks like to the table. */
export interface StepState {
  readonly status: MigrationStepStatus
  readonly attempt: number
  readonly retryable: boolean
  readonly reason: string | null
}

/** How the reason of a step begins that was skipped because another one was lost; the other one's id follows. */
export const NEED_LOST = 'dependency:'

/** The status and the attempts after an event; `undefined`: it is refused. */
export function afterStepEvent(
  state: StepState,
  event: StepEvent,
): { readonly status: MigrationStepStatus; readonly attempt: number } | undefined {
  const row = STEP_TRANSITIONS.find((one) => one.from === state.status && one.event === event)
  if (row === undefined) return undefined
  if (row.retryable === true && !state.retryable) return undefined
  if (row.needLost === true && state.reason?.startsWith(NEED_LOST) !== true) return undefined
  return { status: row.to, attempt: attemptsAfter(state.attempt, row.attempts) }
}

function attemptsAfter(attempt: number, how: StepRow['attempts']): number {
  if (how === 'count') return attempt + 1
  if (how === 'uncount') return Math.max(0, attempt - 1)
  return how === 'reset' ? 0 : attempt
}
