import type { z } from 'zod'
import type { MigrationOptions } from '../../../../../shared/api/migration.ts'
import type { Principal } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import type { MigrationDeps } from '../deps.ts'
import type { Source } from '../source/source.ts'

/** How far a step is that takes long. */
export interface StepProgress {
  readonly bytes: number
  readonly totalBytes: number | null
  readonly entries: number
}

/** What a step works with. */
export interface StepContext {
  readonly deps: MigrationDeps
  readonly jobId: string
  readonly stepId: string
  readonly sourceFp: string
  readonly options: MigrationOptions
  /** The host of the source, of its URL; certificates of the source are not checked where it is `insecure`. */
  readonly sourceHost: string
  readonly insecure: boolean
  /** The thing of the source that it brings. */
  readonly sourceType: string
  readonly sourceId: string
  /** Where it is known before. */
  readonly targetId: string | null
  readonly principal: Principal
  /** Opens the source, once for all steps of a migration that run. */
  source(): Promise<Source>
  /** Aborts when the migration is paused or cancelled, and when the daemon stops. */
  readonly signal: AbortSignal
  /** Says how far it is; shown every few seconds. */
  progress(now: StepProgress): void
}

/** What a step has done, as its last transaction writes it down. */
export type StepResult =
  | {
      readonly kind: 'done'
      /** What the thing has become; goes into the map. */
      readonly target?: {
        readonly type: string
        readonly id: string
        readonly created: boolean
        /** Of the source's record. */
        readonly contentHash: string
      }
      readonly notes?: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'skipped'; readonly reason: string; readonly notes?: Readonly<Record<string, unknown>> }

/**
 * What one action does. `run` does at most one thing outside of the database, which was written down as an intent before, and looks first
 * whether it is done; what it returns is the transaction that writes down the rest together with the step and the map.
 */
export interface StepAction<I> {
  readonly input: z.ZodType<I>
  run(context: StepContext, input: I): Promise<(tx: Tx) => Promise<StepResult>>
  /** Removes what is half there, when the migration is cancelled in the middle of it. */
  abandon?(context: StepContext, input: I): Promise<void>
}

/** Declares an action; the compiler infers its input. */
export function stepAction<I>(action: StepAction<I>): StepAction<I> {
  return action
}

/** A step that cannot succeed by being tried again at once. */
export class StepRefusal extends Error {
  override readonly name = 'StepRefusal'
  readonly code: string
  /** Whether somebody may have it tried again by hand. */
  readonly isRetryable: boolean

  constructor(code: string, message: string, { isRetryable = true }: { readonly isRetryable?: boolean } = {}) {
    super(message)
    this.code = code
    this.isRetryable = isRetryable
  }
}

/** What may succeed when it is tried again after a while. */
export class StepDelay extends Error {
  override readonly name = 'StepDelay'
  readonly code: string

  constructor(code: string, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.code = code
  }
}
