import { type Clock, type IsoTime, isoTime } from '../../shared/kernel/time.ts'
import { Connection } from './sqlite/connection.ts'

/** How a check can end; `failed`: it could not be made. */
export type IntegrityResult = 'ok' | 'damaged' | 'failed'

/** What is known of the database file. */
export interface IntegrityReport {
  readonly status: 'unchecked' | 'checking' | IntegrityResult
  /** What is damaged, or why the check failed. */
  readonly problems: readonly string[]
  /** When the last finished check ended. */
  readonly checkedAt: IsoTime | null
}

const PROBLEMS = 20
/** A file is not read through again before this. */
const FRESH_MS = 60_000

/**
 * Checks the whole database file on a connection of its own, so that readers and the writer go on meanwhile. One check at a
 * time; the last result stays until the next has ended.
 */
export class IntegrityCheck {
  readonly #file: string
  readonly #clock: Clock
  readonly #changed: (status: IntegrityResult) => void
  #last: IntegrityReport = { status: 'unchecked', problems: [], checkedAt: null }
  #endedMs = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined
  #connection: Connection | undefined
  #closed = false

  /** `changed` is called when a check ends otherwise than the one before; not when the first one finds nothing. */
  constructor(options: { file: string; clock: Clock; changed: (status: IntegrityResult) => void }) {
    this.#file = options.file
    this.#clock = options.clock
    this.#changed = options.changed
  }

  report(): IntegrityReport {
    return this.#running === undefined ? this.#last : { ...this.#last, status: 'checking' }
  }

  /** Begins a check unless one runs or has just ended. */
  begin(): void {
    if (this.#closed || this.#running !== undefined) return
    if (this.#clock.monotonicMs() - this.#endedMs < FRESH_MS) return
    this.#running = this.#run().finally(() => {
      this.#running = undefined
    })
  }

  /** Ends a running check without a result. */
  async close(): Promise<void> {
    this.#closed = true
    this.#connection?.interrupt()
    await this.#running
  }

  async #run(): Promise<void> {
    let problems: readonly string[]
    let failed = false
    try {
      problems = await this.#check()
    } catch (error) {
      if (this.#closed) return
      problems = [error instanceof Error ? error.message : String(error)]
      failed = true
    }
    this.#endedMs = this.#clock.monotonicMs()
    const status: IntegrityResult = failed ? 'failed' : problems.length === 0 ? 'ok' : 'damaged'
    const before = this.#last.status
    this.#last = { status, problems, checkedAt: isoTime(this.#clock.nowMs()) }
    if (status !== before && !(status === 'ok' && before === 'unchecked')) this.#changed(status)
  }

  async #check(): Promise<string[]> {
    const connection = await Connection.open(this.#file, 'existing')
    this.#connection = connection
    try {
      await connection.exec('PRAGMA busy_timeout = 5000; PRAGMA query_only = ON')
      const rows = await connection.all(`PRAGMA quick_check(${PROBLEMS})`)
      const found = rows.map((row) => String(row['quick_check']))
      return found.length === 1 && found[0] === 'ok' ? [] : found
    } finally {
      this.#connection = undefined
      await connection.close()
    }
  }
}
