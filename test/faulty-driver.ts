import sqlite3 from 'sqlite3'

/** A statement that is about to be run. */
export interface Statement {
  readonly sql: string
  readonly file: string
}

/** What becomes of it: `undefined` runs it, a code fails it as the driver does. */
export type Plan = (statement: Statement) => SqliteCode | undefined

/** Codes of SQLite, as the driver names them. */
export type SqliteCode =
  | 'SQLITE_NOMEM'
  | 'SQLITE_INTERRUPT'
  | 'SQLITE_FULL'
  | 'SQLITE_BUSY'
  | 'SQLITE_IOERR'
  | 'SQLITE_READONLY'
  | 'SQLITE_CORRUPT'
  | 'SQLITE_ERROR'

/** Whether a statement brings a transaction to the disk: its end, or one that is a transaction by itself. */
export const isCommit = (sql: string): boolean => sql === 'COMMIT' || sql.startsWith('insert into script_')

/** The statements that one stands for: those of a script, which says them in a comment, else itself. */
export const statementsIn = (sql: string): string[] =>
  /^insert into script_.*?\/\* (.*) \*\/$/s.exec(sql)?.[1]?.split('; ') ?? [sql]

type Callback = (error: Error | null, ...rest: unknown[]) => void

/** What was changed in the driver; `remove` puts it back. */
export interface Planted {
  remove(): void
}

/**
 * The database driver of this process (and of daemons in it) fails statements as planned, without running them, until
 * `remove` is called. The driver is a package; nothing of the program is replaced.
 */
export function plantFaults(plan: Plan): Planted {
  return wrapDriver((statement, run, callback) => {
    const code = plan(statement)
    if (code === undefined) run()
    else setImmediate(() => callback?.(Object.assign(new Error(`${code}: planted by a test`), { code })))
  })
}

/** Each statement waits for `pause`, as long as nothing else is asked of the driver meanwhile. */
export function pauseBefore(pause: (statement: Statement) => Promise<void>): Planted {
  return wrapDriver((statement, run, callback) => {
    pause(statement).then(
      () => run(),
      (error: Error) => callback?.(error),
    )
  })
}

/** What each statement has come to is heard of when `pause` is over. */
export function pauseAfter(pause: (statement: Statement) => Promise<void>): Planted {
  return wrapDriver((statement, run, callback) => {
    run(function (this: unknown, ...results: Parameters<Callback>) {
      pause(statement).then(
        () => callback?.apply(this, results),
        (error: Error) => callback?.(error),
      )
    })
  })
}

/** Every statement that the driver runs from now on, by its text and in order; all of them run. */
export function recordStatements(): Planted & { readonly texts: string[] } {
  const texts: string[] = []
  const { remove } = wrapDriver(({ sql }, run) => {
    texts.push(sql)
    run()
  })
  return { texts, remove }
}

/** `run` runs the statement for whoever asked, or for `callback` instead. */
type Around = (statement: Statement, run: (callback?: Callback) => void, callback: Callback | undefined) => void

function wrapDriver(around: Around): Planted {
  const { Database, Statement } = sqlite3
  const { exec } = Database.prototype
  const { run, all } = Statement.prototype
  // The driver's own objects: a statement knows its text, a database its file.
  Database.prototype.exec = function (this: sqlite3.Database & { filename?: string }, sql: string, callback?: never) {
    const run = (instead?: Callback): void => void exec.call(this, sql, (instead ?? callback) as never)
    around({ sql, file: this.filename ?? '' }, run, callback)
    return this
  }
  const wrapped = (original: typeof run | typeof all) =>
    function (this: sqlite3.Statement & { sql?: string }, values: unknown, callback?: never) {
      const run = (instead?: Callback): void => void original.call(this, values, (instead ?? callback) as never)
      around({ sql: this.sql ?? '', file: '' }, run, callback)
      return this
    }
  Statement.prototype.run = wrapped(run) as typeof run
  Statement.prototype.all = wrapped(all) as typeof all
  return {
    remove: () => {
      Object.assign(Database.prototype, { exec })
      Object.assign(Statement.prototype, { run, all })
    },
  }
}
