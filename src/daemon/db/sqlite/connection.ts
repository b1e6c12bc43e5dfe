import sqlite3 from 'sqlite3'
import { PanelError } from '../../../shared/kernel/errors.ts'
import { isUnmet, ScriptStatements, type Step, valuesOf } from './script-statements.ts'

/** A value that SQLite stores as it is. Anything else would be mangled in silence by the driver, so it is refused. */
export type SqlValue = string | number | null | Uint8Array

/** What a statement that is no query did. */
export interface RunResult {
  readonly changes: number
  readonly lastId: number
}

/** What statements are run by: a connection, or what stands for one. */
export interface Runner {
  /** Runs one statement and gives its rows. */
  all(sql: string, parameters?: readonly unknown[]): Promise<Record<string, unknown>[]>
  /** Runs one statement that gives no rows. */
  run(sql: string, parameters?: readonly unknown[]): Promise<RunResult>
  /** Runs one statement that gives no rows, of which no more is asked than whether it has changed so many. */
  change(sql: string, parameters: readonly unknown[], expected: number | undefined): Promise<boolean>
}

const STATEMENTS = 256

/**
 * One SQLite connection with a cache of prepared statements. Queries go through `all`, which resets the statement by
 * itself: a cached statement left in mid-row would pin the write-ahead log.
 */
export class Connection implements Runner {
  readonly #db: sqlite3.Database
  readonly #explain: (error: Error) => unknown
  readonly #statements = new Map<string, sqlite3.Statement>()
  readonly #preparing = new Map<string, Promise<sqlite3.Statement>>()
  readonly #scripts = new ScriptStatements((sql) => this.#exec(sql))
  #closed = false
  /** Called with the SQL and the parameters of whatever runs here, before it does. */
  onStatement: ((sql: string, parameters: readonly unknown[]) => void) | undefined
  /** Called with the SQL of a statement that has run, and how many rows it has given or, if it gives none, changed. */
  onRows: ((sql: string, rows: number) => void) | undefined

  private constructor(db: sqlite3.Database, explain: (error: Error) => unknown) {
    this.#db = db
    this.#explain = explain
  }

  /** `explain` makes of a failure of the driver what callers get; without it they get the driver's own. */
  static async open(
    file: string,
    mode: 'create' | 'existing' | 'read',
    explain: (error: Error) => unknown = (error) => error,
  ): Promise<Connection> {
    const access = mode === 'read' ? sqlite3.OPEN_READONLY : sqlite3.OPEN_READWRITE
    const flags = access | sqlite3.OPEN_FULLMUTEX | (mode === 'create' ? sqlite3.OPEN_CREATE : 0)
    const db = await new Promise<sqlite3.Database>((resolve, reject) => {
      const opened: sqlite3.Database = new sqlite3.Database(file, flags, (error) =>
        error === null ? resolve(opened) : reject(explain(error)),
      )
    })
    return new Connection(db, explain)
  }

  /** Runs one statement and gives its rows. */
  async all(sql: string, parameters: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
    this.onStatement?.(sql, parameters)
    const values = bind(parameters)
    const statement = this.#prepared(sql) ?? (await this.#prepare(sql))
    return new Promise((resolve, reject) => {
      statement.all<Record<string, unknown>>(values, (error, rows) => {
        if (error !== null) return this.#failed(statement, error, reject)
        this.onRows?.(sql, rows.length)
        resolve(rows)
      })
    })
  }

  /** Runs one statement that gives no rows. */
  async run(sql: string, parameters: readonly unknown[] = []): Promise<RunResult> {
    this.onStatement?.(sql, parameters)
    const result = await this.#run(sql, bind(parameters))
    this.onRows?.(sql, result.changes)
    return result
  }

  async #run(sql: string, values: SqlValue[]): Promise<RunResult> {
    const statement = this.#prepared(sql) ?? (await this.#prepare(sql))
    const failed = (error: Error, reject: (reason: unknown) => void): void => this.#failed(statement, error, reject)
    return new Promise((resolve, reject) => {
      statement.run(values, function (this: sqlite3.RunResult, error: Error | null) {
        if (error !== null) return failed(error, reject)
        resolve({ changes: this.changes, lastId: this.lastID })
      })
    })
  }

  async change(sql: string, parameters: readonly unknown[], expected: number | undefined): Promise<boolean> {
    const { changes } = await this.run(sql, parameters)
    return expected === undefined || changes === expected
  }

  /**
   * Runs statements that change rows as one, which is a transaction of its own: all of them are on disk when it resolves with `true`. `false`, and
   * nothing is changed: another connection has committed something since `version` (`PRAGMA data_version`), one of them has not changed as many rows as
   * expected, or they cannot be run so. Fails as a commit does. What they change was said of each before ({@link Connection.onStatement}).
   */
  async runScript(steps: readonly Step[], version: unknown): Promise<boolean> {
    const statement = await this.#scripts.of(steps)
    if (statement === undefined) return false
    try {
      await this.#run(statement, bind(valuesOf(steps, version)))
    } catch (error) {
      if (isUnmet(error)) return false
      throw error
    }
    for (const { sql, expected } of steps) if (expected !== undefined) this.onRows?.(sql, expected)
    return true
  }

  /**
   * Some statements that fail stay as they are, in mid-row, until they are run again: a BEGIN that waited in vain, a COMMIT that would break a reference.
   * All that follows would then read what was there at that moment.
   */
  #failed(statement: sqlite3.Statement, error: Error, reject: (reason: unknown) => void): void {
    const reason = this.#explain(error)
    statement.reset(() => reject(reason))
  }

  /** Runs a whole script without parameters. */
  exec(sql: string): Promise<void> {
    this.onStatement?.(sql, [])
    return this.#exec(sql)
  }

  #exec(sql: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#db.exec(sql, (error) => (error === null ? resolve() : reject(this.#explain(error))))
    })
  }

  /** Ends what runs on this connection now; it fails with SQLITE_INTERRUPT. */
  interrupt(): void {
    this.#db.interrupt()
  }

  /** What runs ends first; what is asked for from now on fails. */
  async close(): Promise<void> {
    this.#closed = true
    const prepared = await Promise.allSettled(this.#preparing.values())
    for (const statement of this.#statements.values()) statement.finalize()
    for (const late of prepared) if (late.status === 'fulfilled') late.value.finalize()
    this.#statements.clear()
    await new Promise<void>((resolve, reject) => {
      this.#db.close((error) => (error === null ? resolve() : reject(error)))
    })
  }

  /** The statement if it is there: what runs again and again need not wait for a turn. */
  #prepared(sql: string): sqlite3.Statement | undefined {
    const statement = this.#statements.get(sql)
    if (statement === undefined) return undefined
    this.#statements.delete(sql) // and back at the end: the first of the map is the one unused for longest
    this.#statements.set(sql, statement)
    return statement
  }

  #prepare(sql: string): Promise<sqlite3.Statement> {
    // SQLite closes nothing that has a statement.
    if (this.#closed) return Promise.reject(stopping())
    const known = this.#preparing.get(sql)
    if (known !== undefined) return known
    const preparing = new Promise<sqlite3.Statement>((resolve, reject) => {
      const statement: sqlite3.Statement = this.#db.prepare(sql, (error: Error | null) => {
        this.#preparing.delete(sql)
        if (error !== null) return reject(this.#explain(error))
        if (!this.#closed) this.#keep(sql, statement)
        resolve(statement)
      })
    })
    this.#preparing.set(sql, preparing)
    return preparing
  }

  #keep(sql: string, statement: sqlite3.Statement): void {
    this.#statements.set(sql, statement)
    const [oldest] = this.#statements
    if (this.#statements.size <= STATEMENTS || oldest === undefined) return
    this.#statements.delete(oldest[0])
    oldest[1].finalize()
  }
}

/** Whoever asks for anything of a database that is about to close. */
export function stopping(): PanelError {
  return new PanelError('SHUTTING_DOWN', 'The daemon is stopping; try again in a moment')
}

function bind(parameters: readonly unknown[]): SqlValue[] {
  return parameters.map((value) => {
    if (value === undefined) return null
    if (typeof value === 'boolean') return value ? 1 : 0
    if (typeof value === 'bigint' && value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER) {
      return Number(value)
    }
    if (value === null || typeof value === 'string' || typeof value === 'number') return value
    if (value instanceof Uint8Array) return value
    throw new TypeError(`SQLite cannot store a ${typeof value}`)
  })
}
