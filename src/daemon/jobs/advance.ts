import type { Clock } from '../../shared/kernel/time.ts'
import { isoTime } from '../../shared/kernel/time.ts'
import type { Bus } from '../core/bus.ts'
import type { Tx } from '../db/db.ts'
import { isStorageFailure } from '../db/sqlite/failures.ts'
import { backOff } from './back-off.ts'
import type { JobMetrics } from './job-metrics.ts'
import { announce } from './queue.ts'
import type { LoadedJob, Registered, WrittenEnd } from './registry.ts'
import { type HolderOf, standingOf } from './rights.ts'
import type { JobRow, Lane, StepRow } from './rows.ts'
import * as rows from './rows.ts'

/** How long a taken-up job counts as worked on without a sign of life. */
export const LEASE_MS = 60_000

/** What moving jobs on needs. */
export interface AdvanceDeps {
  readonly bus: Bus
  readonly clock: Clock
  readonly metrics: JobMetrics
  readonly holderOf: HolderOf
  readonly kindOf: (kind: string) => Registered | undefined
  /** Something is due that the runner may not know of. */
  readonly wake: () => void
  /** Aborts the attempt that runs of a job. */
  readonly abort: (jobId: string) => void
}

/** A job that was taken up, with the step that is to be carried out now. */
export interface Claim {
  readonly row: JobRow
  readonly step: StepRow
  readonly loaded: LoadedJob
}

/** What became of an attempt. */
export type Moved =
  /** The next step, or the same again, is to be carried out now; it is prepared. */
  | { readonly kind: 'on'; readonly claim: Claim }
  /** The job has ended, or waits for something. */
  | { readonly kind: 'away'; readonly failed: boolean }
  /** Somebody else has taken the job up since, or it is gone: what this attempt has written is undone. */
  | { readonly kind: 'lost' }

/** Moves jobs from one step to the next, each move in one transaction. */
export class Advance {
  readonly #deps: AdvanceDeps

  constructor(deps: AdvanceDeps) {
    this.#deps = deps
  }

  /**
   * Takes up what is due in a lane: the step's attempt is counted and prepared. `undefined`: nothing is to be carried out.
   * Throws {@link Unprepared}.
   */
  async claim(tx: Tx, lane: Lane, kinds: readonly string[]): Promise<Claim | undefined> {
    for (;;) {
      const row = await rows.dueInLane(tx, lane, kinds)
      if (row === undefined) return undefined
      if (row.requested === 'cancel') await this.#endCancelled(tx, row)
      else if (row.requested === 'pause') await this.#store(tx, row, { ...PAUSED })
      else {
        const moved = await this.#begin(tx, row, row.fence + 1)
        if (moved.kind === 'on') return moved.claim
      }
    }
  }

  /** Counts an attempt that has failed because its step could not be prepared. */
  async unprepared(tx: Tx, { row: { seq, fence }, cause }: Unprepared): Promise<void> {
    const row = await this.#mine(tx, { row: { seq, fence: fence - 1 } })
    if (row !== undefined) await this.#begin(tx, row, fence, { failure: messageOf(cause) })
  }

  /** Cancels a job and what it has started: at once, or as soon as the step that runs has heard of it. */
  async cancel(tx: Tx, row: JobRow): Promise<void> {
    await this.#cancelChildren(tx, row)
    // Ending the last child may have ended the parent's wait.
    const now = (await rows.findJob(tx.q, row.id)) ?? row
    if (now.status !== 'running') {
      await this.settle(tx, now, 'cancelled')
      return
    }
    await this.#store(tx, now, { requested: 'cancel' })
    tx.onCommit(() => this.#deps.abort(row.id))
  }

  /** Ends what was cancelled while it ran, with what its last attempt may have started meanwhile. */
  async #endCancelled(tx: Tx, row: JobRow): Promise<void> {
    await this.#cancelChildren(tx, row)
    await this.settle(tx, row, 'cancelled')
  }

  async #cancelChildren(tx: Tx, { id }: JobRow): Promise<void> {
    const children = tx.q.selectFrom('job').selectAll().where('parentId', '=', id).where('endedAt', 'is', null)
    for (const child of await children.execute()) await this.cancel(tx, child)
  }

  /**
   * Writes what an attempt has done, and takes up what follows it; throws {@link Unprepared} when that cannot be. With
   * `onward` false the next step waits to be taken up by {@link claim}.
   */
  async finish(
    tx: Tx,
    claim: Claim,
    end: (tx: Tx) => Promise<WrittenEnd>,
    { onward }: { readonly onward: boolean },
  ): Promise<Moved> {
    const row = await this.#mine(tx, claim)
    if (row === undefined) return LOST
    const { state, after } = await end(tx)
    const changed = state === undefined ? row : { ...row, state }
    if (state !== undefined) await rows.updateJob(tx, row, { state })
    switch (after?.kind) {
      case undefined:
      case 'children':
        return this.#stepDone(tx, { ...claim, row: changed }, { forChildren: after !== undefined, onward })
      case 'again':
        return this.#again(tx, { ...claim, row: changed }, { atMs: after.atMs, onward })
      case 'retry':
        return this.#attemptFailed(tx, { ...claim, row: changed }, after)
      case 'fail':
        return this.#stepFailed(tx, { ...claim, row: changed }, { error: after.error, code: after.code })
    }
  }

  /** Writes that an attempt has failed with this error. */
  async failed(tx: Tx, claim: Claim, failure: { error: string; code?: string | undefined }): Promise<Moved> {
    const row = await this.#mine(tx, claim)
    if (row === undefined) return LOST
    return this.#attemptFailed(tx, { ...claim, row }, failure)
  }

  /** The attempt was cut off by the job's cancelling: what it has done is not known. */
  async cancelled(tx: Tx, claim: Claim): Promise<Moved> {
    const row = await this.#mine(tx, claim)
    if (row === undefined) return LOST
    await rows.updateStep(tx, claim.step.id, { status: 'failed', error: 'cancelled', endedAt: tx.now })
    await this.#endCancelled(tx, row)
    return AWAY
  }

  /** The attempt was cut off by the daemon's end: it does not count. */
  async release(tx: Tx, claim: Claim): Promise<void> {
    const row = await this.#mine(tx, claim)
    if (row === undefined) return
    const { id, attempts } = claim.step
    await rows.updateStep(tx, id, { status: 'pending', attempts: Math.max(0, attempts - 1) })
    await rows.updateJob(tx, row, { status: 'queued', dueAt: tx.now })
  }

  /** Ends a job and lets those go on that have waited for it. */
  async settle(
    tx: Tx,
    row: JobRow,
    status: 'succeeded' | 'failed' | 'cancelled',
    failure: { readonly error?: string; readonly errorCode?: string | null } = {},
  ): Promise<JobRow> {
    const { metrics, kindOf, bus } = this.#deps
    const kind = kindOf(row.kind)
    if (kind?.hasEnding === true) await this.#ending(tx, kind, row, status)
    const ended = { status, requested: null, dueAt: null, endedAt: tx.now, ...failure } as const
    let after: JobRow = { ...row, ...ended }
    if (row.background === 1) await tx.q.deleteFrom('job').where('seq', '=', row.seq).execute()
    else {
      after = (await rows.updateJob(tx, row, ended)) ?? after
      await announce(bus, tx, after)
    }
    if (row.ordered === 1 && (await rows.passTurn(tx, row))) tx.onCommit(this.#deps.wake)
    if (row.parentId !== null) await this.#wakeParent(tx, row.parentId)
    tx.onCommit(() => metrics.ended.inc({ kind: row.kind, status }))
    return after
  }

  /** A job of a version that this one cannot read ends without what its type does at an end. */
  async #ending(tx: Tx, kind: Registered, row: JobRow, status: Parameters<LoadedJob['ended']>[1]): Promise<void> {
    const step = (await rows.currentStep(tx.q, row.id)) ?? (await rows.stepsOf(tx.q, row.id, 1))[0]
    let loaded: LoadedJob | undefined
    try {
      loaded = step === undefined ? undefined : kind.load(row, step)
    } catch {
      return
    }
    await loaded?.ended(tx, status)
  }

  /**
   * Begins an attempt of the job's present step, after the rights of the person behind it were looked at. A new `fence` ends
   * what anybody else may still do for the job.
   */
  async #begin(tx: Tx, row: JobRow, fence: number, unprepared?: { readonly failure: string }): Promise<Moved> {
    const { kindOf, holderOf } = this.#deps
    const step = await rows.currentStep(tx.q, row.id)
    if (step === undefined) {
      await this.settle(tx, row, 'succeeded')
      return AWAY
    }
    const kind = kindOf(row.kind)
    if (kind === undefined) throw new Error(`no job of kind ${row.kind} is known`)
    // The effect of a step that was ever prepared may have happened under what its state names: that is kept.
    const isNew = step.startedAt === null
    const attempts = step.attempts + 1
    const begun = await rows.updateStep(tx, step.id, {
      ...{ status: 'running', attempts, endedAt: null },
    })
    const lease = isoTime(Date.parse(tx.now) + LEASE_MS)
    const running = {
      fence,
      status: 'running',
      dueAt: lease,
      startedAt: row.startedAt ?? tx.now,
      currentStep: step.name,
    } as const
    const now = (await rows.updateJob(tx, row, running)) ?? row
    let loaded: LoadedJob
    try {
      loaded = kind.load(now, begun)
    } catch (error) {
      return this.#stepFailed(tx, { row: now, step: begun }, { error: messageOf(error), code: undefined })
    }
    if (attempts > loaded.attempts) {
      const error = `its last attempt was cut off by an end of the daemon, as ${attempts - 1} in all`
      return this.#stepFailed(tx, { row: now, step: begun }, { error, code: undefined })
    }
    const standing = await standingOf({ q: tx.q, now: tx.now }, now, { needs: loaded.needs, holderOf })
    if ('refusal' in standing) {
      return this.#stepFailed(tx, { row: now, step: begun }, { error: standing.refusal, code: 'PERMISSION_DENIED' })
    }
    if (unprepared !== undefined) {
      return this.#attemptFailed(tx, { row: now, step: begun, loaded }, { error: unprepared.failure })
    }
    const { holder } = standing
    if (holder !== undefined) loaded = kind.load(now, begun, holder)
    if (isNew) {
      const state = await prepared(tx, loaded, now)
      await rows.updateStep(tx, step.id, { startedAt: tx.now })
      if (state !== undefined) {
        const ready = (await rows.updateJob(tx, now, { state })) ?? now
        await announce(this.#deps.bus, tx, ready)
        return { kind: 'on', claim: { row: ready, step: begun, loaded: kind.load(ready, begun, holder) } }
      }
    }
    await announce(this.#deps.bus, tx, now)
    return { kind: 'on', claim: { row: now, step: begun, loaded } }
  }

  async #stepDone(
    tx: Tx,
    { row, step }: Pick<Claim, 'row' | 'step'>,
    { forChildren, onward }: { readonly forChildren: boolean; readonly onward: boolean },
  ): Promise<Moved> {
    this.#deps.metrics.steps.inc({ kind: row.kind, outcome: 'succeeded' })
    if (row.background === 1 && row.stepsDone + 1 === row.stepsTotal && !forChildren) {
      await this.settle(tx, row, 'succeeded') // nobody sees its step any more
      return AWAY
    }
    await rows.updateStep(tx, step.id, { status: 'succeeded', error: null, errorCode: null, endedAt: tx.now })
    const done = { stepsDone: row.stepsDone + 1, error: null, errorCode: null }
    const after = (await rows.updateJob(tx, row, done)) ?? row
    const next = await rows.currentStep(tx.q, row.id)
    if (forChildren && (await rows.hasOpenChildren(tx, row.id))) {
      if (row.requested === 'cancel') await this.#endCancelled(tx, after)
      else await this.#store(tx, after, { status: 'waiting', dueAt: null })
      return AWAY
    }
    if (next === undefined) {
      await this.settle(tx, after, 'succeeded')
      return AWAY
    }
    return this.#onUnlessRequested(tx, after, onward)
  }

  async #again(
    tx: Tx,
    { row, step }: Pick<Claim, 'row' | 'step'>,
    { atMs, onward }: { readonly atMs: number | undefined; readonly onward: boolean },
  ): Promise<Moved> {
    this.#deps.metrics.steps.inc({ kind: row.kind, outcome: 'again' })
    // What it did is done: the next round is prepared anew.
    const anew = { status: 'pending', attempts: 0, error: null, errorCode: null, startedAt: null } as const
    await rows.updateStep(tx, step.id, anew)
    const after = (await rows.updateJob(tx, row, { error: null, errorCode: null })) ?? row
    if (atMs === undefined) return this.#onUnlessRequested(tx, after, onward)
    if (await this.#asRequested(tx, after)) return AWAY
    const at = isoTime(atMs)
    await this.#store(tx, after, { status: 'queued', dueAt: at, notBefore: at })
    return AWAY
  }

  async #attemptFailed(
    tx: Tx,
    { row, step, loaded }: Claim,
    failure: { readonly error: string; readonly code?: string | undefined; readonly afterMs?: number | undefined },
  ): Promise<Moved> {
    if (step.attempts >= loaded.attempts) return this.#stepFailed(tx, { row, step }, failure)
    this.#deps.metrics.steps.inc({ kind: row.kind, outcome: 'retried' })
    const error = { error: failure.error.slice(0, MOST_ERROR), errorCode: failure.code ?? null }
    await rows.updateStep(tx, step.id, { status: 'pending', ...error })
    const after = (await rows.updateJob(tx, row, error)) ?? row
    if (await this.#asRequested(tx, after)) return { kind: 'away', failed: true }
    const at = isoTime(this.#deps.clock.nowMs() + (failure.afterMs ?? backOff(step.attempts)))
    await this.#store(tx, after, { status: 'queued', dueAt: at, notBefore: at })
    return { kind: 'away', failed: true }
  }

  async #stepFailed(
    tx: Tx,
    { row, step }: Pick<Claim, 'row' | 'step'>,
    failure: { readonly error: string; readonly code?: string | undefined },
  ): Promise<Moved> {
    this.#deps.metrics.steps.inc({ kind: row.kind, outcome: 'failed' })
    const error = { error: failure.error.slice(0, MOST_ERROR), errorCode: failure.code ?? null }
    await rows.updateStep(tx, step.id, { status: 'failed', ...error, endedAt: tx.now })
    await this.settle(tx, row, 'failed', error)
    return { kind: 'away', failed: true }
  }

  async #onUnlessRequested(tx: Tx, row: JobRow, onward: boolean): Promise<Moved> {
    if (await this.#asRequested(tx, row)) return AWAY
    if (onward) return this.#begin(tx, row, row.fence)
    await this.#store(tx, row, { status: 'queued', dueAt: tx.now, notBefore: tx.now })
    return AWAY
  }

  /** Carries out what was asked of the job while its step ran; whether anything was. */
  async #asRequested(tx: Tx, row: JobRow): Promise<boolean> {
    if (row.requested === 'cancel') await this.#endCancelled(tx, row)
    else if (row.requested === 'pause') await this.#store(tx, row, { ...PAUSED })
    return row.requested !== null
  }

  /** The row as long as nobody else has taken it up. */
  async #mine(
    tx: Tx,
    { row: { seq, fence } }: { readonly row: Pick<JobRow, 'seq' | 'fence'> },
  ): Promise<JobRow | undefined> {
    const row = tx.q.selectFrom('job').selectAll().where('seq', '=', seq).where('fence', '=', fence)
    return row.where('endedAt', 'is', null).executeTakeFirst()
  }

  async #store(tx: Tx, row: JobRow, set: Parameters<typeof rows.updateJob>[2]): Promise<void> {
    const after = await rows.updateJob(tx, row, set)
    if (after !== undefined) await announce(this.#deps.bus, tx, after)
  }

  async #wakeParent(tx: Tx, parentId: string): Promise<void> {
    const parent = await rows.findJob(tx.q, parentId)
    if (parent?.status !== 'waiting' || (await rows.hasOpenChildren(tx, parentId))) return
    await this.#store(tx, parent, { status: 'queued', dueAt: tx.now })
    tx.onCommit(this.#deps.wake)
  }
}

const MOST_ERROR = 2000
const PAUSED = { status: 'paused', requested: null, dueAt: null } as const
const AWAY: Moved = { kind: 'away', failed: false }
const LOST: Moved = { kind: 'lost' }

/** A step could not be prepared: what the transaction was to write is undone. */
export class Unprepared extends Error {
  readonly row: JobRow

  constructor(row: JobRow, cause: unknown) {
    super('a step of a job could not be prepared', { cause })
    this.row = row
  }
}

async function prepared(tx: Tx, loaded: LoadedJob, row: JobRow): Promise<string | undefined> {
  try {
    return await loaded.prepare(tx)
  } catch (error) {
    throw isStorageFailure(error) ? error : new Unprepared(row, error)
  }
}

/** What a person reads of an error that ended an attempt. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
