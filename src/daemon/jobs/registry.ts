import type { JobProgress } from '../../shared/kernel/job.ts'
import type { Principal } from '../access/operation.ts'
import type { Holder } from '../access/permit.ts'
import type { Tx } from '../db/db.ts'
import { isJson, parseJson } from '../db/json.ts'
import type { After, JobOf, JobType, Needs, Pool, StepEnd, StepsOf } from './job-type.ts'
import type { JobRow, StepRow } from './rows.ts'

/** What an attempt leaves, the state as text. */
export interface WrittenEnd {
  readonly state: string | undefined
  readonly after: After | undefined
}

/** A job of a known type at its present step, ready to be carried out. */
export interface LoadedJob {
  readonly attempts: number
  readonly timeoutMs: number
  readonly needs: Needs | undefined
  /** The state after preparing; `undefined`: as it is. */
  prepare(tx: Tx): Promise<string | undefined>
  /** Carries the step out once; what it answers is called in the transaction that moves the job on. */
  run(attempt: {
    readonly signal: AbortSignal
    readonly progress: (now: JobProgress) => void
  }): Promise<(tx: Tx) => Promise<WrittenEnd>>
  ended(tx: Tx, status: 'succeeded' | 'failed' | 'cancelled'): Promise<void>
}

/** A type with its steps, as the engine works with it whatever its input and state are. */
export interface Registered {
  readonly kind: string
  readonly pool: Pool
  readonly background: boolean
  /** Whether it does something when a job of it ends. */
  readonly hasEnding: boolean
  laneBackOffMs(failures: number): number
  /** Whether somebody may have this step tried again; `false` where {@link load} would throw. */
  isRetryable(row: JobRow, step: StepRow): boolean
  /** What the result is to be known with; nothing where the state does not fit the type. */
  notesOf(row: JobRow): readonly string[]
  /** Throws where the row's input or state does not fit the type, or the step is unknown. */
  load(row: JobRow, step: StepRow, holder?: Holder): LoadedJob
}

const ATTEMPTS = 10
const TIMEOUT_MS = 600_000

/** Binds a type to its steps. */
export function registered<I, S, Name extends string>(
  type: JobType<I, S, Name>,
  { steps, ended }: StepsOf<I, S, Name>,
): Registered {
  const byName = new Map<string, StepsOf<I, S, Name>['steps'][Name]>(Object.entries(steps))
  const written = (end: StepEnd<S> | undefined): WrittenEnd => ({
    state: end?.state === undefined ? undefined : JSON.stringify(end.state),
    after: end?.after,
  })
  return {
    kind: type.kind,
    pool: type.pool,
    background: type.background,
    hasEnding: ended !== undefined,
    laneBackOffMs: (failures) => type.laneBackOffMs?.(failures) ?? 0,
    isRetryable: (row, stepRow) => {
      const step = byName.get(stepRow.step)
      const isReadable = isJson(type.input, row.input) && isJson(type.state, row.state)
      return isReadable && step !== undefined && (step.retryable ?? true)
    },
    notesOf: (row) => (isJson(type.state, row.state) ? (type.notes?.(parseJson(type.state, row.state)) ?? []) : []),
    load: (row, stepRow, holder) => {
      const step = byName.get(stepRow.step)
      if (step === undefined) throw new Error(`this version knows no step ${stepRow.step} of ${type.kind}`)
      const job: JobOf<I, S> = {
        id: row.id,
        input: parseJson(type.input, row.input),
        state: parseJson(type.state, row.state),
        attempt: stepRow.attempts,
        step: { number: stepRow.number, name: stepRow.name },
        principal: principalOf(row, holder),
      }
      return {
        attempts: step.attempts ?? ATTEMPTS,
        timeoutMs: step.timeoutMs ?? TIMEOUT_MS,
        needs: type.needs?.(job.input),
        prepare: async (tx) => (step.prepare === undefined ? undefined : JSON.stringify(await step.prepare(tx, job))),
        run: async (attempt) => {
          const finish = await step.run({ job, ...attempt })
          return async (tx) => written(await finish?.(tx))
        },
        ended: async (tx, status) => ended?.(tx, job, status),
      }
    },
  }
}

/** As whom a job's steps carry out operations: with the rights that whoever started it has now. */
function principalOf({ id, userId, principal, cause }: JobRow, holder: Holder | undefined): Principal {
  const onBehalfOf = principal === 'user' ? userId : null
  return { kind: 'job', jobId: id, onBehalfOf, cause, ...(holder === undefined ? {} : { holder }) }
}
