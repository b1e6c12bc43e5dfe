import { AsyncLocalStorage } from 'node:async_hooks'
import { type Clock, type IsoTime, now } from '../../shared/kernel/time.ts'
import { type BriefTries, briefRunner } from './brief.ts'
import { type Collected, writeCollected } from './collected-rows.ts'
import type { Batch, How, Tx } from './db.ts'
import type { HealthRecord } from './db-health.ts'
import { KeepingQueries, type KeptResults } from './kept-results.ts'
import { type Connection, stopping } from './sqlite/connection.ts'
import { isStorageFailure } from './sqlite/failures.ts'
import { type Lease, leaseOf } from './sqlite/lease.ts'
import type { Step } from './sqlite/script-statements.ts'
import type { TableChanges } from './table-changes.ts'

const GROUP = 64
/** So many brief ones may wait for each other: to bring one to the disk takes longer than all else of it. */
const MOST_BRIEF = 2
/** For so long a commit takes in what comes while it is being carried out: those that came first wait for it. */
const OPEN_MS = 20
const DEADLINE_MS = 10_000
const LATE = 'it waits for something else than the database, or for another one'

interface Job {
  run(tx: Tx): Promise<void>
  /** Settles the caller: after the commit, or with the failure. */
  settle(failure?: unknown): void
  /** What follows the commit, and what is left to its end, since it was carried out last. */
  hooks: (() => void)[]
  collected: Collected[]
  /** Nothing of its group is written when it fails. */
  readonly leads?: true
  /** See {@link How}. */
  readonly isLast: boolean
  readonly brief: BriefTries | undefined
}

/** What the next transaction of a scope begins with, until one holds. */
interface Firsts {
  run: ((tx: Tx) => Promise<void>) | undefined
}

/** How a job of a group is undone alone: by going back to a point before its first statement. */
interface Points {
  readonly before: string | undefined
  readonly undo: string
}

/** Those of the jobs before stay open until the commit: to release each would be a statement more, and changes nothing. */
const IN_BATCH: Points = { before: 'SAVEPOINT job', undo: 'ROLLBACK TO job; RELEASE job' }
/** The transaction is its own: what is undone is begun anew, for those that follow. */
const FIRST: Points = { before: undefined, undo: 'ROLLBACK; BEGIN IMMEDIATE' }

/** Takes turns on the writer connection. */
export class WriteQueue {
  readonly #writer: Connection
  readonly #clock: Clock
  readonly #health: HealthRecord
  readonly #changes: TableChanges
  readonly #results: KeptResults
  readonly #catchUps: ((tx: Tx) => Promise<void>)[] = []
  readonly #jobs: Job[] = []
  readonly #firsts = new AsyncLocalStorage<Firsts>()
  #scopes = 0
  /** The job that runs now, which may not take longer than it has. */
  #running: { readonly sinceMs: number; readonly late: (error: Error) => void } | undefined
  /** Ends the looking after jobs that take too long. */
  #watching: AbortController | undefined
  /** The latest stamp since it was taken. */
  #latest: IsoTime | undefined
  #draining: Promise<void> | undefined
  /** Whether a transaction may be open on the writer that could not be rolled back. */
  #isLeftOpen = false
  #ended = false

  constructor(on: {
    writer: Connection
    clock: Clock
    health: HealthRecord
    changes: TableChanges
    results: KeptResults
  }) {
    this.#writer = on.writer
    this.#clock = on.clock
    this.#health = on.health
    this.#changes = on.changes
    this.#results = on.results
  }

  catchUp(work: (tx: Tx) => Promise<void>): void {
    this.#catchUps.push(work)
  }

  write<T>(work: (tx: Tx) => Promise<T>, { isLast = false, brief }: How = {}): Promise<T> {
    const refusal = this.#ended ? stopping() : this.#health.refusal()
    if (refusal !== undefined) return Promise.reject(refusal)
    const firsts = this.#firsts.getStore()
    const first = firsts?.run
    return new Promise<T>((resolve, reject) => {
      let result: { value: T } | undefined
      this.#jobs.push({
        hooks: [],
        collected: [],
        isLast,
        brief: first === undefined ? brief : undefined,
        run: async (tx) => {
          if (first !== undefined) await first(tx)
          result = { value: await work(tx) }
        },
        settle: (failure) => {
          if (result === undefined || failure !== undefined) return reject(failure)
          if (firsts !== undefined) firsts.run = undefined
          resolve(result.value)
        },
      })
      this.#draining ??= this.#drainForAll()
    })
  }

  async withFirst<T>(first: (tx: Tx) => Promise<void>, scope: () => Promise<T>): Promise<T> {
    this.#scopes += 1
    const firsts: Firsts = { run: first }
    try {
      return await this.#firsts.run(firsts, scope)
    } finally {
      firsts.run = undefined // what the scope has set off goes on without it
      this.#scopes -= 1
      // While a storage is in use, Node runs hooks of its own at every promise of the daemon.
      if (this.#scopes === 0) this.#firsts.disable()
    }
  }

  isScoped(): boolean {
    return this.#scopes > 0 && this.#firsts.getStore()?.run !== undefined
  }

  /** Counts what others have committed, unless what runs now is going to. */
  settle(): void {
    if (this.#draining !== undefined || this.#ended) return
    this.#draining = this.#settled().then(() => {
      this.#draining = this.#jobs.length > 0 ? this.#drainForAll() : undefined
    })
  }

  takeLatest(): IsoTime | undefined {
    const latest = this.#latest
    this.#latest = undefined
    return latest
  }

  async end(): Promise<void> {
    this.#ended = true
    while (this.#draining !== undefined) await this.#draining
    this.#watching?.abort()
  }

  /** In nobody's scope, although a scope may have called: others' work runs in here, and what commits set off. */
  #drainForAll(): Promise<void> {
    if (this.#firsts.getStore() === undefined) return this.#drain()
    return this.#firsts.run({ run: undefined }, () => this.#drain())
  }

  async #drain(): Promise<void> {
    await Promise.resolve() // so that calls of the same turn share a commit
    while (this.#jobs.length > 0) {
      if (!(await this.#brief())) await this.#group()
      await this.#settled()
    }
    this.#draining = undefined
  }

  /** Begins to look after jobs that take too long: by one timer for all, since jobs are many and short, which goes on while there are any. */
  #watch(): void {
    const watching = new AbortController()
    this.#watching = watching
    const lookAgain = async (waitMs: number): Promise<void> => {
      await this.#clock.sleep(waitMs, watching.signal)
      if (watching.signal.aborted) return
      if (this.#running === undefined && this.#draining === undefined) {
        this.#watching = undefined
        return
      }
      const ageMs = this.#running === undefined ? 0 : this.#clock.monotonicMs() - this.#running.sinceMs
      if (ageMs < DEADLINE_MS) return lookAgain(DEADLINE_MS - ageMs)
      this.#running?.late(new Error(`a transaction took longer than 10 s: ${LATE}`))
      return lookAgain(DEADLINE_MS)
    }
    void lookAgain(DEADLINE_MS)
  }

  async #settled(): Promise<void> {
    try {
      await this.#changes.settle()
    } catch {
      // Of a database that cannot be read; until it can, nothing counts as unmoved.
    }
  }

  /** While nothing could be written: what the next transaction begins with, which is also the proof that it is stored. */
  #resuming(): Job[] {
    if (this.#health.now().status === 'ok') return []
    const run = async (tx: Tx): Promise<void> => {
      // A transaction that changes nothing would succeed on a full disk too. This writes a page, with what is there.
      const [row] = await this.#writer.all('PRAGMA user_version')
      await this.#writer.exec(`PRAGMA user_version = ${Number(row?.['user_version'])}`)
      for (const work of this.#catchUps) await work(tx)
    }
    const settle = (failure?: unknown): void => {
      if (failure === undefined) this.#health.written()
    }
    return [{ run, settle, hooks: [], collected: [], leads: true, isLast: false, brief: undefined }]
  }

  /**
   * One commit: of what is waiting when it begins, and of what comes while others of it are carried out. Then those get their turn that
   * are to be last.
   */
  async #group(): Promise<void> {
    const done: Job[] = []
    const waiting = Math.min(this.#jobs.length, GROUP)
    try {
      this.#changes.begin()
      await this.#begin()
      this.#changes.begun()
    } catch (error) {
      // What has come while this failed, which may take seconds, is tried once too.
      for (const job of this.#jobs.splice(0, waiting)) job.settle(error)
      return
    }
    for (const job of this.#turns()) {
      // Before the first that holds there is nothing to go back to but the beginning.
      const failure = await this.#one(job, done.length === 0 ? FIRST : IN_BATCH)
      if (failure === undefined) {
        done.push(job)
        continue
      }
      job.settle(failure.error)
      if (failure.endedAll === undefined && job.leads !== true) continue
      await this.#rollBack()
      // Nothing of this group is stored. What has not begun must not write outside a transaction: it gets a new one.
      const undone = job.leads === true ? this.#jobs.splice(0, waiting) : done
      for (const other of undone) other.settle((failure.endedAll ?? failure).error)
      return
    }
    const last: (() => void)[] = []
    try {
      const failure = await writeCollected(
        done.flatMap(({ collected }) => collected),
        leaseOf(this.#writer),
        last,
      )
      if (failure !== undefined) throw failure.error
      this.#changes.committing()
      await this.#writer.run('COMMIT')
    } catch (error) {
      this.#changes.mayBeCommitted()
      await this.#rollBack()
      for (const job of done) job.settle(error)
      return
    }
    this.#committed(done, last)
  }

  /**
   * The next job as a commit of its own, by one statement for all that it changes, where no more than a few brief ones wait: others share a commit. Answers whether
   * it is through; else nothing was changed, and it waits at the head of the queue to be carried out as others are.
   */
  async #brief(): Promise<boolean> {
    const [job, ...waiting] = this.#jobs
    if (job?.brief === undefined || this.#isLeftOpen || this.#health.now().status !== 'ok') return false
    const isAmongFew = waiting.length < MOST_BRIEF && waiting.every(({ brief }) => brief !== undefined)
    if (!isAmongFew || !job.brief.isDue()) return false
    try {
      // Nothing holds others off before the statement, which is not run when they have committed something meanwhile.
      this.#changes.begin()
      this.#changes.begun()
    } catch {
      return false // whoever carries it out meets the same
    }
    if (this.#changes.inside.moment() === undefined) return false // they have already
    this.#jobs.shift()
    const runner = briefRunner(this.#writer)
    const lease = leaseOf(runner)
    const last: (() => void)[] = []
    const failure =
      (await this.#carryOut(job, lease)) ??
      lease.failure() ??
      (await writeCollected(job.collected, leaseOf(runner), last))
    const written = failure === undefined ? await this.#runSteps(runner.steps) : { failure }
    if (runner.isOther() || written === 'not now') {
      job.brief.failed()
      this.#jobs.unshift(job)
      return false
    }
    if (written === 'written') {
      job.brief.held()
      this.#committed([job], last)
      return true
    }
    const { error } = written.failure
    job.settle(error)
    // What has come while this failed, which may take seconds, is tried once too.
    if (isStorageFailure(error)) for (const other of this.#jobs.splice(0, waiting.length)) other.settle(error)
    return true
  }

  /** `not now`: they were not run, see {@link Connection.runScript}. */
  async #runSteps(steps: readonly Step[]): Promise<'written' | 'not now' | { readonly failure: { error: unknown } }> {
    try {
      const isRun = steps.length === 0 || (await this.#writer.runScript(steps, this.#changes.version))
      return isRun ? 'written' : 'not now'
    } catch (error) {
      this.#changes.mayBeCommitted()
      return { failure: { error } }
    }
  }

  #committed(jobs: readonly Job[], last: readonly (() => void)[]): void {
    this.#changes.committed()
    for (const hook of last) follow(hook)
    for (const job of jobs) {
      for (const hook of job.hooks) follow(hook)
      job.settle()
    }
  }

  async #begin(): Promise<void> {
    try {
      await this.#writer.run('BEGIN IMMEDIATE')
    } catch (error) {
      // There is something to roll back only where that has failed before.
      await this.#writer.exec('ROLLBACK').catch(() => {
        throw error
      })
      await this.#writer.run('BEGIN IMMEDIATE')
    }
    this.#isLeftOpen = false
  }

  async #rollBack(): Promise<void> {
    await this.#writer.exec('ROLLBACK').catch((error: unknown) => {
      // Mostly SQLite has done so by itself.
      if (!(error instanceof Error && error.message.includes('no transaction is active'))) this.#isLeftOpen = true
    })
  }

  /** The jobs of a group, each taken from the queue when it is its turn. */
  *#turns(): Generator<Job> {
    yield* this.#resuming()
    const there = this.#jobs.filter(({ isLast }) => !isLast).length
    const sinceMs = this.#clock.monotonicMs()
    for (let begun = 0; begun < GROUP; begun++) {
      if (begun >= there && this.#clock.monotonicMs() - sinceMs >= OPEN_MS) break
      const place = this.#jobs.findIndex(({ isLast }) => !isLast)
      if (place < 0) break
      yield* this.#jobs.splice(place, 1)
    }
    for (const job of this.#jobs.filter(({ isLast }) => isLast)) yield* this.#jobs.splice(this.#jobs.indexOf(job), 1)
  }

  /** `endedAll`: what has ended the transaction of the whole group, such as a full disk, even if the job has gone on. */
  async #one(
    job: Job,
    points: Points,
  ): Promise<{ error: unknown; endedAll: { error: unknown } | undefined } | undefined> {
    const { before } = points
    const lease = leaseOf(this.#writer, before === undefined ? undefined : () => this.#writer.run(before))
    const failure = await this.#carryOut(job, lease)
    const endedAll = lease.failure()
    if (endedAll !== undefined) return { error: (failure ?? endedAll).error, endedAll }
    if (failure === undefined) return undefined
    const isUndone = before !== undefined && !lease.hasBegun()
    return { error: failure.error, endedAll: isUndone ? undefined : await this.#undo(points) }
  }

  /** Runs the work of a job, and waits until nothing of it is running any more; answers with what it has failed. */
  async #carryOut(job: Job, lease: Lease): Promise<{ readonly error: unknown } | undefined> {
    const stamp = now(this.#clock)
    if (this.#latest === undefined || stamp > this.#latest) this.#latest = stamp
    // Others than before: what is left over of work that was called before is no part of it.
    const hooks: (() => void)[] = []
    const collected: Collected[] = []
    job.hooks = hooks
    job.collected = collected
    const tx: Tx = {
      q: new KeepingQueries(lease.source, { results: this.#results, sight: this.#changes.inside }),
      now: stamp,
      onCommit: (hook) => hooks.push(hook),
      // Its batch gets rows of its own kind alone: `R` of the one is that of the other.
      collect: <R>(batch: Batch<R>, row: R) =>
        void collected.push({ batch, row, write: (last, rows) => batch.write(last, rows as readonly R[]) }),
    }
    let failure: { readonly error: unknown } | undefined
    try {
      await new Promise<void>((resolve, late) => {
        this.#running = { sinceMs: this.#clock.monotonicMs(), late }
        if (this.#watching === undefined) this.#watch()
        job.run(tx).then(resolve, late)
      })
    } catch (error) {
      failure = { error }
    }
    await lease.end()
    this.#running = undefined
    return failure
  }

  /** Undoes the job alone; answers why that failed: then the whole group has to be undone. */
  async #undo(points: Points): Promise<{ error: unknown } | undefined> {
    if (points === FIRST) this.#changes.begin() // others may commit before it has begun anew
    try {
      await this.#writer.exec(points.undo)
      this.#changes.begun()
      return undefined
    } catch (error) {
      return { error }
    }
  }
}

/** Runs what follows a commit. What is stored is stored, and others wait behind it: a failure is a bug that nobody catches (core/watch-bugs.ts). */
function follow(hook: () => void): void {
  try {
    hook()
  } catch (error) {
    void Promise.reject(error)
  }
}
