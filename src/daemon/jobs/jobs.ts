import type { Registry } from 'prom-client'
import type { Clock } from '../../shared/kernel/time.ts'
import type { Bus } from '../core/bus.ts'
import type { Log } from '../core/log.ts'
import type { SystemErrors } from '../core/system-errors.ts'
import type { Db } from '../db/db.ts'
import { Advance } from './advance.ts'
import { createJobMetrics } from './job-metrics.ts'
import type { JobType, StepsOf } from './job-type.ts'
import { ProgressWriter } from './progress.ts'
import { JobQueue } from './queue.ts'
import { type Registered, registered } from './registry.ts'
import type { HolderOf } from './rights.ts'
import type { JobRow, Lane } from './rows.ts'
import { Runner } from './runner.ts'

/** What the engine is made of. */
export interface JobsDeps {
  readonly db: Db
  readonly bus: Bus
  readonly clock: Clock
  readonly log: Log
  readonly systemErrors: Pick<SystemErrors, 'capture'>
  readonly registry: Registry
  readonly holderOf: HolderOf
}

/**
 * Work that outlives the process that began it. Features register the types of their jobs before the engine starts, and add
 * jobs within their transactions; the engine carries them out step by step (docs/adr/0039-jobs.md).
 */
export interface Jobs {
  readonly queue: JobQueue
  register<I, S, Step extends string>(type: JobType<I, S, Step>, steps: StepsOf<I, S, Step>): void
  /** What is to be known of a job's result beside its state, for people. */
  notesOf(row: JobRow): readonly string[]
  /** Works in a lane instead of its jobs, which wait meanwhile; `undefined` while one of them is under way. */
  hold<T>(lane: Lane, work: () => Promise<T>): Promise<T> | undefined
  /** Tries a lane again at once that backs off after failures. */
  endBackOff(lane: Lane): void
  start(): void
  close(): Promise<void>
}

/** The engine over the `job` table. */
export function createJobs({ registry, holderOf, ...core }: JobsDeps): Jobs {
  const kinds = new Map<string, Registered>()
  const metrics = createJobMetrics(registry)
  const wake = (): void => runner.wake()
  const abort = (jobId: string): void => runner.abort(jobId)
  const advance = new Advance({ ...core, metrics, holderOf, wake, abort, kindOf: (kind) => kinds.get(kind) })
  const runner: Runner = new Runner({ ...core, metrics, advance, kinds, progress: new ProgressWriter(core) })
  const queue = new JobQueue({
    ...core,
    cancel: (tx, row) => advance.cancel(tx, row),
    isRetryable: (row, step) => kinds.get(row.kind)?.isRetryable(row, step) ?? false,
    wake,
  })
  return {
    queue,
    register: (type, steps) => {
      if (kinds.has(type.kind)) throw new Error(`two types of jobs are called ${type.kind}`)
      kinds.set(type.kind, registered(type, steps))
    },
    notesOf: (row) => kinds.get(row.kind)?.notesOf(row) ?? [],
    hold: (lane, work) => runner.hold(lane, work),
    endBackOff: (lane) => runner.endBackOff(lane),
    start: () => runner.start(),
    close: () => runner.close(),
  }
}
