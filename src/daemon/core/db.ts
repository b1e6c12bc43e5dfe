import { AsyncLocalStorage } from 'node:async_hooks'
import type { CompiledQuery, Kysely } from 'kysely'
import { PanelError } from '../../shared/errors.ts'
import { type Clock, type IsoTime, now } from '../../shared/time.ts'
import type { Schema } from './schema.ts'
import { Connection } from './sqlite/connection.ts'
import { storageFailure } from './sqlite/failures.ts'
import { leaseOf } from './sqlite/lease.ts'
import { queriesOver } from './sqlite/queries.ts'
import { ReaderPool } from './sqlite/reader-pool.ts'

/** Where queries go: the readers outside a transaction, the writer inside one. */
export type Queries = Kysely<Schema>

/** One transaction. All that happens in it has the same `now`. */
export interface Tx {
  readonly q: Queries
  readonly now: IsoTime
  /** Runs after the commit is on disk, in the order of commits; it must not fail and not wait. */
  onCommit(hook: () => void): void
}

/**
 * The installation's database (architecture.md §4): one writer connection, several readers, write-ahead log, every
 * commit on disk before it is answered.
 */
export interface Db {
  /** Where the database is; its write-ahead log stands beside it with `-wal`. */
  readonly file: string
  /** For reading. A reader sees every commit that was answered before it began. */
  readonly read: Queries
  /**
   * Runs `work` in a transaction. Concurrent ones are grouped into one commit, each under its own savepoint: one that
   * throws undoes itself alone. Waiting for anything but the database inside is a mistake; after 10 s it is undone.
   */
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /**
   * Begins the transactions of the calls made inside `scope` with `first`, until one holds (idempotency keys). What a commit
   * sets off, and what goes on after the scope has ended, is not part of it.
   */
  withFirst<T>(first: (tx: Tx) => Promise<void>, scope: () => Promise<T>): Promise<T>
  /** A consistent copy of the whole database in a new file. */
  copyTo(file: string): Promise<void>
  close(): Promise<void>
}

/**
 * A query by one id whose SQL is made once: for a wide join the making costs more than the reading. The query must contain
 * the id as a value and nothing else that changes.
 */
export function prepared<O>(
  build: (q: Queries, id: string) => { compile(): CompiledQuery<O> },
): (q: Queries, id: string) => Promise<O[]> {
  const never = async (): Promise<never> => {
    throw new Error('this instance only makes SQL')
  }
  const query = build(queriesOver({ acquire: never, release: () => undefined }), ID_PLACE).compile()
  return async (q, id) => {
    const parameters = query.parameters.map((value) => (value === ID_PLACE ? id : value))
    return (await q.executeQuery<O>({ ...query, parameters })).rows
  }
}

/** Stands for the id while the SQL is made; no value of ours contains it. */
const ID_PLACE = '\0id'

const GROUP = 64
const DEADLINE_MS = 10_000

interface Job {
  run(tx: Tx): Promise<void>
  /** Settles the caller: after the commit, or with the failure. */
  settle(failure?: unknown): void
  readonly hooks: (() => void)[]
}

/** What the next transaction of a scope begins with, until one holds. */
interface Firsts {
  run: ((tx: Tx) => Promise<void>) | undefined
}

/** How a job of a group is undone alone. */
interface Points {
  readonly before: readonly string[]
  readonly after: readonly string[]
  readonly undo: string
}

const AMONG_OTHERS: Points = { before: ['SAVEPOINT job'], after: ['RELEASE job'], undo: 'ROLLBACK TO job; RELEASE job' }
/** The transaction is its own: what is undone is begun anew, for the commit. */
const ALONE: Points = { before: [], after: [], undo: 'ROLLBACK; BEGIN IMMEDIATE' }

/** Opens (or creates) the database at `file`. The schema is not touched: see migrations.ts. */
export async function openDb(file: string, clock: Clock): Promise<Db> {
  const writer = await Connection.open(file, 'create')
  await writer.exec('PRAGMA journal_mode = WAL')
  await writer.exec(
    'PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY',
  )
  const readers = await ReaderPool.open(file)
  const read = queriesOver({ acquire: () => readers.acquire(), release: (connection) => readers.release(connection) })
  const queue = new WriteQueue(writer, clock)
  return {
    file,
    read,
    write: (work) => queue.write(work),
    withFirst: (first, scope) => queue.withFirst(first, scope),
    copyTo: (target) => queue.alone((connection) => connection.run('VACUUM INTO ?', [target]).then(() => undefined)),
    close: async () => {
      await queue.end()
      await readers.close()
      // On a full disk the log cannot be brought into the file; it stays beside it and is read at the next start.
      await writer.exec('PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)').catch(() => undefined)
      await writer.close()
    },
  }
}

/** Takes turns on the writer connection. */
class WriteQueue {
  readonly #writer: Connection
  readonly #clock: Clock
  readonly #jobs: Job[] = []
  readonly #inside = new AsyncLocalStorage<true>()
  readonly #firsts = new AsyncLocalStorage<Firsts>()
  #scopes = 0
  #draining: Promise<void> | undefined
  #ended = false

  constructor(writer: Connection, clock: Clock) {
    this.#writer = writer
    this.#clock = clock
  }

  write<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    if (this.#inside.getStore()) throw new Error('a transaction cannot wait for another one: pass its tx on')
    if (this.#ended) throw new PanelError('SHUTTING_DOWN', 'The daemon is stopping; try again in a moment')
    const firsts = this.#firsts.getStore()
    const first = firsts?.run
    return new Promise<T>((resolve, reject) => {
      let result: { value: T } | undefined
      this.#jobs.push({
        hooks: [],
        run: async (tx) => {
          if (first !== undefined) await first(tx)
          result = { value: await work(tx) }
        },
        settle: (failure) => {
          if (result === undefined || failure !== undefined) return reject(storageFailure(failure))
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
      if (this.#scopes === 0) this.#firsts.disable() // as in #drain
    }
  }

  /** Runs `work` on the writer outside any transaction, between two groups. */
  async alone(work: (connection: Connection) => Promise<void>): Promise<void> {
    while (this.#draining !== undefined) await this.#draining
    this.#draining = work(this.#writer).finally(() => {
      this.#draining = this.#jobs.length > 0 ? this.#drainForAll() : undefined
    })
    await this.#draining
  }

  async end(): Promise<void> {
    this.#ended = true
    while (this.#draining !== undefined) await this.#draining
  }

  /** In nobody's scope, although a scope may have called: others' work runs in here, and what commits set off. */
  #drainForAll(): Promise<void> {
    if (this.#firsts.getStore() === undefined) return this.#drain()
    return this.#firsts.run({ run: undefined }, () => this.#drain())
  }

  async #drain(): Promise<void> {
    await Promise.resolve() // so that calls of the same turn share a commit
    while (this.#jobs.length > 0) await this.#group(this.#jobs.splice(0, GROUP))
    this.#inside.disable() // while a storage is in use, Node runs hooks of its own at every promise of the daemon
    this.#draining = undefined
  }

  async #group(jobs: readonly Job[]): Promise<void> {
    const done: Job[] = []
    const stamp = now(this.#clock)
    try {
      await this.#writer.run('BEGIN IMMEDIATE')
    } catch (error) {
      for (const job of jobs) job.settle(error)
      return
    }
    const points = jobs.length === 1 ? ALONE : AMONG_OTHERS
    for (const [place, job] of jobs.entries()) {
      const failure = await this.#one(job, stamp, points)
      if (failure === undefined) done.push(job)
      else job.settle(failure.error)
      if (failure?.endedAll !== true) continue
      // Nothing of this group is stored. What has not begun must not write outside a transaction: it gets a new one.
      for (const undone of done) undone.settle(failure.error)
      this.#jobs.unshift(...jobs.slice(place + 1))
      return
    }
    try {
      await this.#writer.run('COMMIT')
    } catch (error) {
      await this.#writer.run('ROLLBACK').catch(() => undefined) // a failed commit may have rolled back by itself
      for (const job of done) job.settle(error)
      return
    }
    for (const job of done) {
      for (const hook of job.hooks) hook()
      job.settle()
    }
  }

  /** `endedAll`: the failure, such as a full disk, has ended the transaction of the whole group. */
  async #one(job: Job, stamp: IsoTime, points: Points): Promise<{ error: unknown; endedAll: boolean } | undefined> {
    const lease = leaseOf(this.#writer)
    const tx: Tx = {
      q: queriesOver(lease.source),
      now: stamp,
      onCommit: (hook) => job.hooks.push(hook),
    }
    const late = new AbortController()
    try {
      for (const sql of points.before) await this.#writer.run(sql)
      await Promise.race([
        this.#inside.run(true, () => job.run(tx)),
        this.#clock.sleep(DEADLINE_MS, late.signal).then(() => {
          if (!late.signal.aborted) throw new Error('a transaction took longer than 10 s')
        }),
      ])
      await lease.end()
      for (const sql of points.after) await this.#writer.run(sql)
      return undefined
    } catch (error) {
      await lease.end()
      return { error, endedAll: !(await this.#undo(points)) }
    } finally {
      late.abort()
    }
  }

  /** Undoes the job alone; false when there was no savepoint left, and with it nothing of the whole group. */
  async #undo({ undo }: Points): Promise<boolean> {
    try {
      await this.#writer.exec(undo)
      return true
    } catch {
      await this.#writer.exec('ROLLBACK').catch(() => undefined) // mostly there is nothing left to roll back
      return false
    }
  }
}

/** The `table.column` list of a UNIQUE constraint that the error reports, as in `location.name`; else undefined. */
export function uniqueViolation(error: unknown): string | undefined {
  return error instanceof Error ? /UNIQUE constraint failed: (.+)$/.exec(error.message)?.[1] : undefined
}

/** Whether the error reports a broken reference to another row. */
export function isForeignKeyViolation(error: unknown): boolean {
  return error instanceof Error && error.message.includes('FOREIGN KEY constraint failed')
}
