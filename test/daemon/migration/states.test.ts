import { expect, it } from 'vitest'
import {
  afterJobEvent,
  JOB_TRANSITIONS,
  type JobEvent,
} from '../../../src/daemon/features/operations/migration/job-states.ts'
import {
  afterStepEvent,
  STEP_TRANSITIONS,
  type StepEvent,
} from '../../../src/daemon/features/operations/migration/step-states.ts'
import { MigrationJobStatus, MigrationStepStatus } from '../../../src/shared/kernel/migration.ts'

/** From, event, what was requested, whether there is a plan, to. Everything that is not here is refused. */
const JOBS: readonly (readonly [string, JobEvent, 'pause' | 'cancel' | null, boolean, string])[] = [
  ['pending', 'taken', null, false, 'validating'],
  ['pending', 'pause', null, false, 'paused'],
  ['pending', 'cancel', null, false, 'cancelled'],
  ['validating', 'planned', null, true, 'running'],
  ['validating', 'planned', 'pause', true, 'paused'],
  ['validating', 'planned', 'cancel', true, 'cancelled'],
  ['validating', 'planned_only', null, true, 'completed'],
  ['validating', 'refused', null, false, 'failed'],
  ['validating', 'refused', 'cancel', false, 'cancelled'],
  ['validating', 'pause', null, false, 'validating pause'],
  ['validating', 'cancel', null, false, 'validating cancel'],
  ['running', 'pause', null, true, 'running pause'],
  ['running', 'pause', 'cancel', true, 'running cancel'],
  ['running', 'cancel', 'pause', true, 'running cancel'],
  ['running', 'drained', 'pause', true, 'paused'],
  ['running', 'drained', 'cancel', true, 'cancelled'],
  ['running', 'all_ended', null, true, 'completed'],
  ['running', 'all_ended', 'pause', true, 'paused'],
  ['running', 'all_ended', 'cancel', true, 'cancelled'],
  ['running', 'given_up', null, true, 'failed'],
  ['paused', 'resume', null, true, 'running'],
  ['paused', 'resume', null, false, 'pending'],
  ['failed', 'resume', null, true, 'running'],
  ['failed', 'resume', null, false, 'pending'],
  ['paused', 'retry_step', null, true, 'running'],
  ['failed', 'retry_step', null, true, 'running'],
  ['completed', 'retry_step', null, true, 'running'],
  ['paused', 'cancel', null, true, 'running cancel'],
  ['failed', 'cancel', null, true, 'running cancel'],
  ['paused', 'cancel', null, false, 'cancelled'],
]

it('migrations go through these states, and nothing else changes them', () => {
  for (const [from, event, requested, hasPlan, to] of JOBS) {
    const after = afterJobEvent({ status: MigrationJobStatus.parse(from), requested }, event, { hasPlan })
    expect(`${after?.status}${after?.requested ? ` ${after.requested}` : ''}`, `${from} ${event} ${requested}`).toBe(to)
  }
  const events = [...new Set(JOB_TRANSITIONS.map(({ event }) => event))]
  const named = new Set(JOBS.map(([from, event]) => `${from} ${event}`))
  for (const status of MigrationJobStatus.options) {
    for (const event of events) {
      const isListed = JOB_TRANSITIONS.some((row) => row.event === event && row.from.includes(status))
      if (named.has(`${status} ${event}`) || (status === 'validating' && event === 'drained')) continue
      expect(isListed, `${status} ${event}`).toBe(false)
    }
  }
  for (const event of ['pause', 'resume', 'cancel'] as const) {
    for (const status of ['completed', 'cancelled'] as const) {
      expect(afterJobEvent({ status, requested: null }, event, { hasPlan: true })).toBeUndefined()
    }
  }
})

/** From, event, to, attempts after (of 2 before). */
const STEPS: readonly (readonly [string, StepEvent, string, number])[] = [
  ['pending', 'begin', 'running', 3],
  ['pending', 'need_lost', 'skipped', 2],
  ['pending', 'not_needed', 'skipped', 2],
  ['pending', 'cancel', 'skipped', 2],
  ['running', 'not_needed', 'skipped', 2],
  ['running', 'done', 'completed', 2],
  ['running', 'try_again', 'pending', 2],
  ['running', 'give_up', 'failed', 2],
  ['running', 'set_aside', 'pending', 1],
  ['running', 'wait', 'pending', 1],
  ['completed', 'repeat', 'pending', 0],
  ['failed', 'repeat', 'pending', 0],
  ['running', 'cancel', 'failed', 2],
  ['running', 'lost', 'pending', 2],
  ['failed', 'retry', 'pending', 0],
]

it('steps go through these states, and nothing else changes them', () => {
  const state = { attempt: 2, retryable: true, reason: null }
  const named = new Map(STEPS.map(([from, event, to, attempt]) => [`${from} ${event}`, { status: to, attempt }]))
  for (const status of MigrationStepStatus.options) {
    for (const { event } of STEP_TRANSITIONS) {
      expect(afterStepEvent({ ...state, status }, event), `${status} ${event}`).toEqual(named.get(`${status} ${event}`))
    }
  }
})

it('a step is tried again only when that may help, and one that was left out only for the sake of another', () => {
  const failed = { status: 'failed', attempt: 6, retryable: false, reason: null } as const
  expect(afterStepEvent(failed, 'retry')).toBeUndefined()
  const skipped = { status: 'skipped', attempt: 0, retryable: true } as const
  expect(afterStepEvent({ ...skipped, reason: 'unchanged' }, 'retry')).toBeUndefined()
  expect(afterStepEvent({ ...skipped, reason: 'dependency:mgs_1' }, 'retry')).toEqual({ status: 'pending', attempt: 0 })
})
