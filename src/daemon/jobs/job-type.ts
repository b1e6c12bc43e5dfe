import type { z } from 'zod'
import type { JobProgress } from '../../shared/kernel/job.ts'
import type { Permission } from '../../shared/kernel/permissions.ts'
import type { Principal } from '../access/operation.ts'
import type { Tx } from '../db/db.ts'

/** Lanes that share a bound: at most `size` of them are worked on at a time. */
export interface Pool {
  readonly name: string
  readonly size: number
}

/** What the person behind a job must hold when each of its steps begins. */
export type Needs =
  | { readonly panel: Permission }
  | { readonly server: string; readonly permissions: readonly Permission[] }

/** One step as it is planned: which of the type's steps it is, and what it is called in this job. */
export interface PlannedStep<Step extends string> {
  readonly step: Step
  readonly name: string
}

/** A type of job: what its rows hold and how they queue. What its steps do is given to the engine by {@link StepsOf}. */
export interface JobType<I, S, Step extends string> {
  /** `<area>.<verb>`, for ever: rows carry it. */
  readonly kind: string
  /** Read from rows that older versions wrote; a newer version may add fields that have a default. */
  readonly input: z.ZodType<I>
  readonly state: z.ZodType<S>
  /** The state before the first step. */
  first(input: I): S
  /** For people, at most 200 characters. */
  title(input: I): string
  readonly pool: Pool
  lane(input: I): string
  /** Whether a job holds up its lane until it has ended; otherwise the next one goes on while it waits for a further attempt. */
  readonly ordered: boolean
  /** The panel's own work: not listed by default, announced by no events, forgotten when it has ended. */
  readonly background: boolean
  plan(input: I): readonly PlannedStep<Step>[]
  needs?(input: I): Needs
  /** For people: what the result is to be known with, such as what was left out. */
  notes?(state: S): readonly string[]
  /** How long a lane that is not ordered backs off after so many failed attempts in a row. */
  laneBackOffMs?(failures: number): number
}

/** Declares a type of job; the compiler infers what its steps work with. */
export function defineJob<I, S, const Step extends string>(type: JobType<I, S, Step>): JobType<I, S, Step> {
  return type
}

/** A job as its steps see it. */
export interface JobOf<I, S> {
  readonly id: string
  readonly input: I
  readonly state: S
  /** From 1; a step that was cut off by a crash has used an attempt. */
  readonly attempt: number
  readonly step: { readonly number: number; readonly name: string }
  /** For operations that a step carries out. */
  readonly principal: Principal
}

/** What comes after an attempt. */
export type After =
  /** The same step once more: at once, or at a time (milliseconds since the epoch). It counts as no failure. */
  | { readonly kind: 'again'; readonly atMs: number | undefined }
  /** The next step, when all jobs have ended that name this one as their parent. */
  | { readonly kind: 'children' }
  /** The attempt failed; another one after `afterMs`, or after the usual wait, while the step has attempts left. */
  | { readonly kind: 'retry'; readonly error: string; readonly code?: string; readonly afterMs?: number }
  /** The attempt failed, and another one would fail alike. */
  | { readonly kind: 'fail'; readonly error: string; readonly code?: string }

/** What a finished attempt leaves: a new state, and what comes after it if not the next step. */
export interface StepEnd<S> {
  readonly state?: S
  readonly after?: After
}

/** Writes what an attempt has done, in the transaction that moves the job on. Must not wait for anything but the database. */
export type Finish<S> = (tx: Tx) => Promise<StepEnd<S> | undefined>

/** What an attempt works with. */
export interface Attempt<I, S> {
  readonly job: JobOf<I, S>
  /** Aborts when the job is cancelled, the step takes too long, or the daemon stops. */
  readonly signal: AbortSignal
  /** Says how far it is; written down and shown at most once a second. */
  progress(now: JobProgress): void
}

/**
 * One step: at most one effect outside of the database, between two transactions. `prepare` writes into the state what is
 * about to be done, such as the key under which the outside knows it; `run` does it; what `run` returns writes down that it
 * was done. After a crash `run` is called again with the same state: an effect that must happen once looks there first.
 */
export interface Step<I, S> {
  /** In the transaction before the first attempt; answers the state that `run` finds. */
  prepare?(tx: Tx, job: JobOf<I, S>): Promise<S>
  run(attempt: Attempt<I, S>): Promise<Finish<S> | undefined>
  /** 10 if not given. */
  readonly attempts?: number
  /** Ten minutes if not given. */
  readonly timeoutMs?: number
  /** Whether somebody may have it tried again after it has failed for good; true if not given. */
  readonly retryable?: boolean
}

/** The steps of a type. `ended` runs in the transaction in which a job of it ends, however it ends. */
export interface StepsOf<I, S, Name extends string> {
  readonly steps: Readonly<Record<Name, Step<I, S>>>
  ended?(tx: Tx, job: JobOf<I, S>, status: 'succeeded' | 'failed' | 'cancelled'): Promise<void>
}
