import type { z } from 'zod'
import type { Principal } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import type { MigrationDeps } from '../deps.ts'
import type { Source } from '../source/source.ts'

/** What a step works with. */
export interface StepContext {
  readonly deps: MigrationDeps
  readonly jobId: string
  readonly stepId: string
  readonly sourceFp: string
  /** The thing of the source that it brings. */
  readonly sourceType: string
  readonly sourceId: string
  /** Where it is known before. */
  readonly targetId: string | null
  readonly principal: Principal
  /** Opens the source, once for all steps of a migration that run. */
  source(): Promise<Source>
  readonly signal: AbortSignal
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
}

/** Declares an action; the compiler infers its input. */
export function stepAction<I>(action: StepAction<I>): StepAction<I> {
  return action
}

/** A step that cannot succeed by being tried again. */
export class StepRefusal extends Error {
  override readonly name = 'StepRefusal'
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}
