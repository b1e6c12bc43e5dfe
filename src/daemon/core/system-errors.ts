import type { Selectable } from 'kysely'
import { z } from 'zod'
import { PanelError } from '../../shared/kernel/errors.ts'
import { newId } from '../../shared/kernel/ids.ts'
import { type SystemError, SystemErrorLevel } from '../../shared/kernel/system-error.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { Db, Tx } from '../db/db.ts'
import { parseJson } from '../db/json.ts'
import type { Schema } from '../db/schema.ts'
import { isStorageFailure } from '../db/sqlite/failures.ts'
import type { Bus } from './bus.ts'
import type { Log } from './log.ts'
import { type ErrorAbout, type ErrorEntry, errorEntry } from './system-error-entry.ts'

/** Writes down what goes wrong, once for each bug. */
export interface SystemErrors {
  /**
   * Notes an error; it is written a moment later, outside of whatever runs now. Never throws and never waits. A flood of
   * errors is counted, not described. An error of the writing itself goes to the log only.
   */
  capture(error: unknown, about: ErrorAbout): void
  /** Resolves when all that was captured before is written. */
  written(): Promise<void>
  /** Writes what is left and stops. */
  close(): Promise<void>
}

const PAUSE_MS = 1000
/** Bugs that wait to be written; those beyond are only counted. */
const MOST_WAITING = 100
/** Errors in one second that are looked at closely. */
const MOST_DESCRIBED = 200

interface Waiting {
  entry: ErrorEntry
  count: number
}

/** The recorder over its table. */
export function createSystemErrors(deps: { db: Db; bus: Bus; clock: Clock; log: Log }): SystemErrors {
  return new Recorder(deps)
}

class Recorder implements SystemErrors {
  readonly #deps: { db: Db; bus: Bus; clock: Clock; log: Log }
  readonly #ending = new AbortController()
  readonly #done: Promise<void>
  #waiting = new Map<string, Waiting>()
  #described = { sinceMs: 0, count: 0 }
  #dropped = 0
  #wake = (): void => undefined
  #listeners: (() => void)[] = []
  #writing = false
  /** The last attempt has failed, and the log says so. */
  #isBehind = false

  constructor(deps: { db: Db; bus: Bus; clock: Clock; log: Log }) {
    this.#deps = deps
    // Begun here, so that the writing belongs to no request and to no transaction that captures something.
    this.#done = this.#run()
  }

  capture(error: unknown, about: ErrorAbout): void {
    if (error instanceof PanelError && error.code === 'SHUTTING_DOWN') return
    try {
      if (!this.#mayDescribe()) {
        this.#dropped += 1
        return
      }
      const entry = errorEntry(error, about)
      const before = this.#waiting.get(entry.fingerprint)
      if (before === undefined && this.#waiting.size >= MOST_WAITING) {
        this.#dropped += 1
        return
      }
      this.#waiting.set(entry.fingerprint, { entry, count: (before?.count ?? 0) + 1 })
      this.#wake()
    } catch (err) {
      this.#deps.log.error({ err, errorComponent: about.component }, 'cannot capture system error')
    }
  }

  written(): Promise<void> {
    if (this.#waiting.size === 0 && !this.#writing) return Promise.resolve()
    return new Promise((resolve) => this.#listeners.push(resolve))
  }

  async close(): Promise<void> {
    this.#ending.abort()
    this.#wake()
    await this.#done
  }

  #mayDescribe(): boolean {
    const nowMs = this.#deps.clock.monotonicMs()
    if (nowMs - this.#described.sinceMs > 1000) this.#described = { sinceMs: nowMs, count: 0 }
    this.#described.count += 1
    return this.#described.count <= MOST_DESCRIBED
  }

  /** The database cannot be written now: the errors wait, as many as ever wait. */
  #putBack(waiting: ReadonlyMap<string, Waiting>): void {
    this.#isBehind = true
    for (const [fingerprint, { entry, count }] of waiting) {
      const newer = this.#waiting.get(fingerprint)
      if (newer !== undefined) newer.count += count
      else if (this.#waiting.size < MOST_WAITING) this.#waiting.set(fingerprint, { entry, count })
      else this.#dropped += count
    }
  }

  async #run(): Promise<void> {
    const { clock } = this.#deps
    const { signal } = this.#ending
    while (!signal.aborted || this.#waiting.size > 0) {
      if (this.#waiting.size === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve
          if (signal.aborted || this.#waiting.size > 0) resolve()
        })
      }
      await this.#write()
      if (!signal.aborted) await clock.sleep(PAUSE_MS, signal)
    }
  }

  async #write(): Promise<void> {
    const { db, bus, clock, log } = this.#deps
    const waiting = this.#waiting
    this.#waiting = new Map()
    this.#writing = true
    if (this.#dropped > 0) log.warn({ count: this.#dropped }, 'too many system errors, some were dropped')
    this.#dropped = 0
    try {
      if (waiting.size > 0) {
        await db.write(async (tx) => {
          for (const one of waiting.values()) await writeOne(tx, { bus, clock }, one)
        })
      }
      this.#isBehind = false
    } catch (err) {
      if (!this.#isBehind) log.error({ err, count: waiting.size }, 'cannot store system errors')
      if (isStorageFailure(err) && !this.#ending.signal.aborted) this.#putBack(waiting)
    }
    this.#writing = false
    if (this.#waiting.size > 0) return
    for (const listener of this.#listeners.splice(0)) listener()
  }
}

/** A row as the API shows it. */
export function systemErrorOf(row: Selectable<Schema['systemError']>): SystemError {
  const { fingerprint: _, metadata, resolutionNote, level, ...rest } = row
  const resolved = row.resolvedAt !== null
  return {
    ...rest,
    level: SystemErrorLevel.parse(level),
    metadata: metadata === null ? null : parseJson(Metadata, metadata),
    status: resolved ? 'resolved' : 'open',
    resolved,
    note: resolutionNote,
    createdAt: row.firstSeenAt,
  }
}

const Metadata = z.record(z.string(), z.unknown())

/** Counts on the open row of the bug, or begins one: what was resolved and comes back is reported anew. */
async function writeOne(tx: Tx, { bus, clock }: { bus: Bus; clock: Clock }, { entry, count }: Waiting): Promise<void> {
  const { fingerprint, component: _, ...last } = entry
  const seen = await tx.q
    .updateTable('systemError')
    .set((eb) => ({ ...last, count: eb('count', '+', count), lastSeenAt: tx.now }))
    .where('fingerprint', '=', fingerprint)
    .where('resolvedAt', 'is', null)
    .executeTakeFirst()
  if (seen.numUpdatedRows > 0n) return
  const row = {
    ...entry,
    id: newId('err', clock),
    count,
    firstSeenAt: tx.now,
    lastSeenAt: tx.now,
    resolvedAt: null,
    resolvedBy: null,
    resolutionNote: null,
  }
  await tx.q.insertInto('systemError').values(row).execute()
  await bus.append(tx, { type: 'system_error', data: { error: systemErrorOf(row) } })
}
