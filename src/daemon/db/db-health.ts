import { dirname, join } from 'node:path'
import { storageFailure, troubleOf } from './sqlite/failures.ts'

/**
 * What is known of the database from its use. `unwritable`: the last write failed for its disk, and none has succeeded
 * since; `damaged`: a page or the file was found broken, which a running daemon never takes back.
 */
export interface DbHealth {
  readonly status: 'ok' | 'unwritable' | 'damaged'
  /** For operators: what is wrong with which file, and what to do; `null` when all is well. */
  readonly reason: string | null
}

/** Where copies are that a schema change has made before it began. */
export function snapshotsOf(file: string): string {
  return join(dirname(file), 'snapshots')
}

/** What an operator does about a damaged database. */
export function wayOutOfDamage(file: string): string {
  return (
    `Stop the panel, look with "panel db check", and go back to a copy with "panel db restore <copy>"; ` +
    `copies made before upgrades are in ${snapshotsOf(file)}`
  )
}

/** The database cannot be opened as it is; the message says why, and what an operator does. */
export class UnusableDatabaseError extends Error {
  override readonly name = 'UnusableDatabaseError'
}

/** A failure of opening or migrating as an operator reads it; any other error stays what it is. */
export function openingFailure(error: unknown, file: string): unknown {
  for (let at = error; at instanceof Error; at = at.cause) {
    const trouble = troubleOf(at)
    if (trouble === 'damaged') {
      const message = `the database ${file} is damaged (${words(at)}). ${wayOutOfDamage(file)}`
      return new UnusableDatabaseError(message, { cause: error })
    }
    if (trouble === 'unwritable') {
      const way = `see that the folder ${dirname(file)} can be written by this user and that no other program uses the file`
      return new UnusableDatabaseError(`the database ${file} cannot be opened (${words(at)}); ${way}`, { cause: error })
    }
  }
  return error
}

/** Learns from every failure of a statement what can be done with the database, and says so to whoever asks. */
export class HealthRecord {
  readonly #file: string
  readonly #listeners = new Set<(health: DbHealth) => void>()
  #now: DbHealth = { status: 'ok', reason: null }
  #damage: unknown

  constructor(file: string) {
    this.#file = file
  }

  now(): DbHealth {
    return this.#now
  }

  /** Why nothing is written any more; `undefined` while it may be tried. */
  refusal(): unknown {
    return this.#now.status === 'damaged' ? storageFailure(this.#damage) : undefined
  }

  /** Takes a failure of the writer, and answers what callers are shown of it. */
  writeFailed(error: unknown): unknown {
    const trouble = troubleOf(error)
    if (trouble === 'damaged') this.#damaged(error)
    else if (trouble !== undefined && this.#now.status !== 'damaged') {
      const what =
        trouble === 'full'
          ? `The disk of the database is full: free some space in ${dirname(this.#file)}`
          : `The database ${this.#file} cannot be written: ${words(error)}`
      this.#set({ status: 'unwritable', reason: what })
    }
    return storageFailure(error)
  }

  /** Takes a failure of a reader: one that cannot read now says nothing about writing, and one that writes is a bug. */
  readFailed(error: unknown): unknown {
    if (error instanceof Error && 'code' in error && error.code === 'SQLITE_READONLY') return error
    if (troubleOf(error) === 'damaged') this.#damaged(error)
    return storageFailure(error)
  }

  /** A change is on the disk. */
  written(): void {
    if (this.#now.status === 'unwritable') this.#set({ status: 'ok', reason: null })
  }

  /** Calls with every change until the returned function is called. */
  onChange(listener: (health: DbHealth) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #damaged(error: unknown): void {
    if (this.#now.status === 'damaged') return
    this.#damage = error
    const reason = `The database ${this.#file} is damaged (${words(error)}), nothing more is stored in it. ${wayOutOfDamage(this.#file)}`
    this.#set({ status: 'damaged', reason })
  }

  #set(health: DbHealth): void {
    if (health.status === this.#now.status && health.reason === this.#now.reason) return
    this.#now = health
    for (const listener of this.#listeners) listener(health)
  }
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
