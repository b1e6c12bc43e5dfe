import type { TaskOutput } from '../../../../../shared/api/schedules.ts'
import { PanelError } from '../../../../../shared/kernel/errors.ts'
import type { JobOf } from '../../../../jobs/job-type.ts'
import type { RunInput, RunState } from '../run-type.ts'

/** A run at one of its steps. */
export type RunJob = JobOf<RunInput, RunState>

/** How a step went. `ends`: the run ends with it, also where it is to go on after failures. */
export type Outcome =
  | { readonly ok: true; readonly output?: TaskOutput | null }
  | {
      readonly ok: false
      readonly code: string
      readonly error: string
      readonly ends?: true
      readonly output?: TaskOutput | null
    }

/** What nothing of a server can be done with. */
const ENDS: ReadonlySet<string> = new Set(['SERVER_SUSPENDED', 'SERVER_NOT_FOUND', 'PERMISSION_DENIED'])
/** What says nothing about the step, which is tried again. */
const PASSING: ReadonlySet<string> = new Set([
  'SHUTTING_DOWN',
  'DATABASE_READ_ONLY',
  'DATABASE_UNAVAILABLE',
  'INTERNAL_ERROR',
])

/** The outcome that an expected failure is; throws any other again. */
export function failureOf(error: unknown): Extract<Outcome, { ok: false }> {
  if (!(error instanceof PanelError) || PASSING.has(error.code)) throw error
  return refused(error.code, error.message)
}

export function refused(code: string, error: string): Extract<Outcome, { ok: false }> {
  return { ok: false, code, error, ...(ENDS.has(code) ? { ends: true } : {}) }
}
