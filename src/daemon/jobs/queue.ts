import { newId } from '../../shared/kernel/ids.ts'
import type { Clock, IsoTime } from '../../shared/kernel/time.ts'
import type { Caller } from '../access/caller.ts'
import type { Bus } from '../core/bus.ts'
import type { Tx } from '../db/db.ts'
import type { JobType } from './job-type.ts'
import type { JobRow, StepRow } from './rows.ts'
import * as rows from './rows.ts'
import { toSummary } from './view.ts'

/** How a job is added. */
export interface NewJob<I> {
  readonly input: I
  /** What has started it, for people: `schedule nightly`. */
  readonly cause: string
  /** On whose behalf its steps run, and by which API key; the panel's own if not given. */
  readonly onBehalfOf?: Pick<Caller, 'kind' | 'userId' | 'credentialId'> | undefined
  readonly serverId?: string | undefined
  readonly nodeId?: string | undefined
  readonly parentId?: string | undefined
  /** Not before this. */
  readonly at?: IsoTime | undefined
  /** At most one job of this key is open at a time: another one is not added. */
  readonly key?: string | undefined
}

/** Why a job is not changed. */
export type Unchanged = 'ended' | 'background' | 'not failed' | 'not retryable' | 'replaced'

/** What a change of a job writes. */
type ChangedJob = Partial<Omit<JobRow, 'seq' | 'id' | 'kind' | 'fence'>>

interface QueueDeps {
  readonly bus: Bus
  readonly clock: Clock
  /** Whether a step of this kind may be tried again by hand. */
  readonly isRetryable: (row: JobRow, step: StepRow) => boolean
  /** Cancels a job and what it has started, in this transaction. */
  readonly cancel: (tx: Tx, row: JobRow) => Promise<void>
  readonly wake: () => void
}

/** Adds jobs and changes them, each within the transaction of its caller; the engine hears of it by the commit. */
export class JobQueue {
  readonly #deps: QueueDeps

  constructor(deps: QueueDeps) {
    this.#deps = deps
  }

  /** Adds a job and answers its id; `undefined` when there is an open one of its key. */
  async add<I, S, Step extends string>(tx: Tx, type: JobType<I, S, Step>, job: NewJob<I>): Promise<string | undefined> {
    const { clock, wake } = this.#deps
    if (job.key !== undefined && (await rows.findByKey(tx.q, job.key)) !== undefined) return undefined
    const id = newId('job', clock)
    const { input, onBehalfOf } = job
    const steps = type.plan(input)
    const lane = { pool: type.pool.name, lane: type.lane(input) }
    const notBefore = job.at ?? tx.now
    const waits = type.ordered && (await rows.firstInLane(tx, lane)) !== undefined
    const row = await tx.q
      .insertInto('job')
      .values({
        id,
        kind: type.kind,
        title: type.title(input).slice(0, 200),
        input: JSON.stringify(type.input.parse(input)),
        state: JSON.stringify(type.state.parse(type.first(input))),
        status: 'queued',
        requested: null,
        ...lane,
        ordered: type.ordered ? 1 : 0,
        dueAt: waits ? null : notBefore,
        notBefore,
        fence: 0,
        jobKey: job.key ?? null,
        background: type.background ? 1 : 0,
        parentId: job.parentId ?? null,
        serverId: job.serverId ?? null,
        nodeId: job.nodeId ?? null,
        principal: onBehalfOf === undefined ? 'panel' : 'user',
        userId: onBehalfOf?.userId ?? null,
        apiKeyId: onBehalfOf?.kind === 'apiKey' ? onBehalfOf.credentialId : null,
        cause: job.cause,
        stepsDone: 0,
        stepsTotal: steps.length,
        currentStep: steps[0]?.name ?? null,
        progress: null,
        error: null,
        errorCode: null,
        startedAt: null,
        endedAt: null,
        createdAt: tx.now,
        updatedAt: tx.now,
      })
      .returningAll()
      .executeTakeFirstOrThrow()
    for (const [index, { step, name }] of steps.entries()) {
      await tx.q
        .insertInto('jobStep')
        .values({
          ...{ id: newId('step', clock), jobId: id, number: index + 1, step, name, status: 'pending', attempts: 0 },
          ...{ error: null, errorCode: null, startedAt: null, endedAt: null },
        })
        .execute()
    }
    await announce(this.#deps.bus, tx, row)
    tx.onCommit(wake)
    return id
  }

  /**
   * Has the job of a key run at this time: one that waits is brought to it, else one is added. One that is under way is left
   * as it is; it has to look once more at what it is about before it ends.
   */
  async schedule<I, S, Step extends string>(
    tx: Tx,
    type: JobType<I, S, Step>,
    job: NewJob<I> & { readonly key: string; readonly at: IsoTime },
  ): Promise<void> {
    const row = await rows.findByKey(tx.q, job.key)
    if (row === undefined) await this.add(tx, type, job)
    else if (row.status === 'queued') {
      await rows.updateJob(tx, row, { notBefore: job.at, dueAt: row.dueAt === null ? null : job.at })
      tx.onCommit(this.#deps.wake)
    }
  }

  /** The same, at `job.at` at the latest: nothing is written when it is due sooner. */
  async scheduleBy<I, S, Step extends string>(
    tx: Tx,
    type: JobType<I, S, Step>,
    job: NewJob<I> & { readonly key: string; readonly at: IsoTime },
  ): Promise<void> {
    const [known] = await rows.dueOfKey(tx.q, { key: job.key })
    const isSooner = known !== undefined && known.notBefore <= job.at
    if (!isSooner) await this.schedule(tx, type, job)
  }

  /** Forgets the open job of a key that is no longer needed, unless it is under way. */
  async forget(tx: Tx, key: string): Promise<void> {
    await tx.q
      .deleteFrom('job')
      .where('jobKey', '=', key)
      .where('endedAt', 'is', null)
      .where('status', '=', 'queued')
      .execute()
  }

  /** Has the engine look for what is due; after the commit of whoever has made something due. */
  wake(): void {
    this.#deps.wake()
  }

  /** Pauses a job: at once, or when the step that runs has ended. */
  async pause(tx: Tx, row: JobRow): Promise<Unchanged | undefined> {
    const refused = unchangeable(row)
    // What is being cancelled stays so.
    if (refused !== undefined || row.status === 'paused' || row.requested !== null) return refused
    const set =
      row.status === 'running' ? ({ requested: 'pause' } as const) : ({ status: 'paused', dueAt: null } as const)
    await this.#update(tx, row, set)
    return undefined
  }

  /** Goes on with a job that is paused or about to be. */
  async resume(tx: Tx, row: JobRow): Promise<Unchanged | undefined> {
    const refused = unchangeable(row)
    if (refused !== undefined) return refused
    if (row.status === 'running' && row.requested === 'pause') await this.#update(tx, row, { requested: null })
    if (row.status !== 'paused') return undefined
    if (await rows.hasOpenChildren(tx, row.id)) await this.#update(tx, row, { status: 'waiting' })
    else await this.#queue(tx, row, { status: 'queued', dueAt: row.notBefore > tx.now ? row.notBefore : tx.now })
    return undefined
  }

  /** Cancels a job and what it has started: at once, or as soon as the step that runs has heard of it. */
  async cancel(tx: Tx, row: JobRow): Promise<Unchanged | undefined> {
    const refused = unchangeable(row)
    if (refused !== undefined) return refused
    if (row.requested !== 'cancel') await this.#deps.cancel(tx, row)
    return undefined
  }

  /** Has a step tried again that has failed, and the job go on from there, unless another job of its key is open by now. */
  async retryStep(tx: Tx, row: JobRow, step: StepRow): Promise<Unchanged | undefined> {
    const { isRetryable } = this.#deps
    if (row.background === 1) return 'background'
    const waits = row.status === 'queued' && step.status === 'pending' && step.error !== null
    if (!waits && (row.status !== 'failed' || step.status !== 'failed')) return 'not failed'
    if (!isRetryable(row, step)) return 'not retryable'
    const open = row.jobKey === null ? undefined : await rows.findByKey(tx.q, row.jobKey)
    if (open !== undefined && open.id !== row.id) return 'replaced'
    await rows.updateStep(tx, step.id, { status: 'pending', attempts: 0, endedAt: null })
    const again = { status: 'queued', requested: null, endedAt: null, notBefore: tx.now } as const
    await this.#queue(tx, row, { ...again, dueAt: tx.now })
    return undefined
  }

  /** Brings a job back into its lane: due then if it has the turn; else whoever has it goes first. */
  async #queue(tx: Tx, row: JobRow, set: ChangedJob & { readonly dueAt: IsoTime }): Promise<void> {
    const turn = await rows.hasTurn(tx, row)
    await this.#update(tx, row, turn ? set : { ...set, dueAt: null })
    if (!turn) await rows.passTurn(tx, row)
  }

  async #update(tx: Tx, row: JobRow, set: ChangedJob): Promise<void> {
    const after = await rows.updateJob(tx, row, set)
    if (after !== undefined) await announce(this.#deps.bus, tx, after)
    tx.onCommit(this.#deps.wake)
  }
}

/** Announces how a job stands now; what the panel does by itself again and again is no event. */
export async function announce(bus: Bus, tx: Tx, row: JobRow): Promise<void> {
  if (row.background === 1) return
  const data = { job: toSummary(row) }
  await bus.append(tx, { type: 'job_updated', data })
  if (row.serverId !== null) await bus.append(tx, { type: 'server_job_updated', serverId: row.serverId, data })
}

function unchangeable(row: JobRow): Unchanged | undefined {
  if (row.background === 1) return 'background'
  return row.endedAt === null ? undefined : 'ended'
}
