import type { Kysely } from 'kysely'
import type { Clock, IsoTime } from '../../shared/kernel/time.ts'
import type { BriefTries } from './brief.ts'
import { type DbHealth, HealthRecord } from './db-health.ts'
import { KeepingQueries, KeptResults } from './kept-results.ts'
import type { Schema } from './schema.ts'
import { Connection } from './sqlite/connection.ts'
import type { ConnectionSource } from './sqlite/dialect.ts'
import { ReaderPool } from './sqlite/reader-pool.ts'
import { TableChanges } from './table-changes.ts'
import { keepingTo, type Seen } from './table-parts.ts'
import { WriteQueue } from './write-queue.ts'

/** Where queries go: the readers outside a transaction, the writer inside one. */
export type Queries = Kysely<Schema>

/** One transaction. All that happens in it has the same `now`. */
export interface Tx {
  readonly q: Queries
  readonly now: IsoTime
  /** Runs after the commit is on disk, in the order of commits; it must not wait. A failure is reported as a bug, and changes nothing else. */
  onCommit(hook: () => void): void
  /** Leaves a row to be written at the end of the commit, with those of all other transactions in it. */
  collect<R>(batch: Batch<R>, row: R): void
}

/**
 * Rows that a commit writes in one go at its end, in the order in which they were collected; those of transactions that were undone
 * are not among them. When it fails, nothing of the commit is stored: what may be wrong with a row is found out before it is collected.
 */
export interface Batch<R> {
  write(tx: Pick<Tx, 'q' | 'onCommit'>, rows: readonly R[]): Promise<void>
}

/** How a transaction is carried out. */
export interface How {
  /** Of a group it begins when the others are through: more may come for it until then. */
  readonly isLast?: boolean
  /**
   * It may be carried out by itself and with one statement for all that it changes, which saves most of its ways to SQLite and back. For work that reads first, and then changes rows
   * by made statements (`db/statement.ts`) of which it asks for no rows. Where it turns out to be otherwise, or another program writes meanwhile, all of it is undone
   * and `work` is called again: it must leave nothing behind but in its transaction.
   */
  readonly brief?: BriefTries | undefined
}

/**
 * The installation's database: one writer connection, several readers, write-ahead log, every
 * commit on disk before it is answered.
 */
export interface Db {
  /** Where the database is; its write-ahead log stands beside it with `-wal`. */
  readonly file: string
  /** For reading. A reader sees every commit that was answered before it began. */
  readonly read: Queries
  /**
   * Runs `work` in a transaction. Concurrent ones are grouped into one commit, each under its own savepoint: one that
   * throws undoes itself alone; when the storage fails, nothing of the whole commit is stored. Waiting for anything but the database inside is a mistake; after 10 s it is undone.
   */
  write<T>(work: (tx: Tx) => Promise<T>, how?: How): Promise<T>
  /**
   * Begins the transactions of the calls made inside `scope` with `first`, until one holds (idempotency keys). What a commit
   * sets off, and what goes on after the scope has ended, is not part of it.
   */
  withFirst<T>(first: (tx: Tx) => Promise<void>, scope: () => Promise<T>): Promise<T>
  /** Whether a transaction of whoever asks belongs to the scope of a {@link Db.withFirst}. */
  isScoped(): boolean
  /** What the last statements have said about the file and its disk. */
  health(): DbHealth
  /** Calls with every change of {@link Db.health} until the returned function is called. */
  onHealth(listener: (health: DbHealth) => void): () => void
  /**
   * Runs `work` at the beginning of the first transaction that is stored after the database could not be written: nothing
   * else is written before it. It must not throw for anything but the storage.
   */
  catchUp(work: (tx: Tx) => Promise<void>): void
  /**
   * The latest `now` that a transaction has had since this was called before. Where it is ahead of the clock, the clock was ahead
   * when rows were stamped, and has been set back.
   */
  takeLatestNow(): IsoTime | undefined
  /** When tables have changed: what was read is as it would be read again while its tables have not. */
  readonly changes: Changes
  /** Reads as {@link Db.read} does, and calls `note` with what each query sees; a query that reads more than tables fails. */
  noting(note: (seen: readonly Seen[]) => void): Queries
  close(): Promise<void>
}

/** What is known of changes of tables, by whatever program. */
export type Changes = Pick<TableChanges, 'looked' | 'moment' | 'unmoved' | 'onForeign'>

/** Opens (or creates) the database at `file`. The schema is not touched: see migrations.ts. */
export async function openDb(file: string, clock: Clock): Promise<Db> {
  const health = new HealthRecord(file)
  const writer = await Connection.open(file, 'create', (error) => health.writeFailed(error))
  await writer.exec('PRAGMA journal_mode = WAL')
  await writer.exec(
    'PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000; PRAGMA temp_store = MEMORY',
  )
  const readers = await ReaderPool.open(file, (error) => health.readFailed(error))
  const source = {
    acquire: () => readers.acquire(),
    release: (connection: Connection): void => readers.release(connection),
  }
  const changes = await TableChanges.open(file, writer)
  const results = new KeptResults((sql, options) => changes.readBy(sql, options))
  const queue = new WriteQueue({ writer, clock, health, changes, results })
  const moment = (): number | undefined => {
    const now = changes.moment()
    if (now === undefined) queue.settle()
    return now
  }
  const known = {
    looked: () => changes.looked(),
    moment,
    unmoved: (seen: readonly Seen[], since: number): boolean => changes.unmoved(seen, since),
    onForeign: (listener: () => void) => changes.onForeign(listener),
  }
  const reading = (note: NonNullable<ConnectionSource['note']>): Queries =>
    new KeepingQueries({ ...source, note }, { results, sight: known, shared: () => read })
  const read: Queries = reading(() => undefined)
  return {
    file,
    read,
    write: (work, how) => queue.write(work, how),
    withFirst: (first, scope) => queue.withFirst(first, scope),
    isScoped: () => queue.isScoped(),
    changes: known,
    noting: (note) => reading((sql, rows) => note(keepingTo(rows, changes.readBy(sql)))),
    health: () => health.now(),
    onHealth: (listener) => health.onChange(listener),
    catchUp: (work) => queue.catchUp(work),
    takeLatestNow: () => queue.takeLatest(),
    close: async () => {
      await queue.end()
      await readers.close()
      // On a full disk the log cannot be brought into the file; it stays beside it and is read at the next start.
      await writer.exec('PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)').catch(() => undefined)
      await writer.close()
      // Last: to close a file takes SQLite's locks of it away from the whole process.
      changes.close()
    },
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
