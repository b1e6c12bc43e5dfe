import { PanelError } from '../../../shared/kernel/errors.ts'

/**
 * What keeps the database from storing something, whatever the statement was: its disk is full, it cannot be written (or
 * read) now, or its file is damaged.
 */
export type StorageTrouble = 'full' | 'unwritable' | 'damaged'

/** Codes of SQLite by their beginning: `SQLITE_IOERR` stands for `SQLITE_IOERR_WRITE` as well. */
const TROUBLES: Readonly<Record<StorageTrouble, readonly string[]>> = {
  full: ['SQLITE_FULL'],
  damaged: ['SQLITE_CORRUPT', 'SQLITE_NOTADB'],
  unwritable: [
    'SQLITE_IOERR',
    'SQLITE_BUSY',
    'SQLITE_LOCKED',
    'SQLITE_READONLY',
    'SQLITE_CANTOPEN',
    'SQLITE_PERM',
    'SQLITE_PROTOCOL',
    'SQLITE_NOMEM',
  ],
}

/** What callers of the API read. Where the files are is shown to those who may see the health of the panel. */
const WORDS: Readonly<Record<StorageTrouble, string>> = {
  full:
    "The disk of the panel's database is full and nothing can be stored: free some space there and try again. " +
    'Reading, stop and kill work meanwhile, and so do API keys',
  unwritable:
    "The panel's database cannot be used now; the daemon's log says why. Try again when that is mended. " +
    'Stop and kill work meanwhile, and so do API keys',
  damaged:
    "The panel's database is damaged and nothing more is stored in it. On the panel's machine, " +
    '"panel db check" shows the damage and the copies to go back to',
}

/**
 * Failures after which SQLite keeps the transaction as it was before the statement (https://www.sqlite.org/lang_transaction.html); of constraints
 * because no statement of the program says `or rollback`.
 */
const OF_THE_STATEMENT = ['SQLITE_CONSTRAINT', 'SQLITE_ERROR', 'SQLITE_MISMATCH', 'SQLITE_TOOBIG', 'SQLITE_RANGE']

/** What a driver's error says of the storage; `undefined`: it is the statement's own failure, such as a constraint. */
export function troubleOf(error: unknown): StorageTrouble | undefined {
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined
  const { code } = error
  const troubles = ['full', 'damaged', 'unwritable'] as const
  return troubles.find((trouble) => TROUBLES[trouble].some((known) => code === known || code.startsWith(`${known}_`)))
}

/** Distinguishes a full disk and a broken file from bugs; the daemon stays up and says what is wrong. */
export function storageFailure(error: unknown): unknown {
  const trouble = troubleOf(error)
  if (trouble === undefined) return error
  const code = trouble === 'full' ? 'INSUFFICIENT_SPACE' : 'DATABASE_UNAVAILABLE'
  return new PanelError(code, WORDS[trouble], { cause: error })
}

/** Whether the database could not store (or read) anything now, so that the same work may succeed later. */
export function isStorageFailure(error: unknown): boolean {
  return error instanceof PanelError && troubleOf(error.cause) !== undefined
}

/**
 * Whether SQLite may have rolled back the whole transaction when a statement failed with this: then what is asked next would be a
 * transaction of its own.
 */
export function mayHaveRolledBack(error: unknown): boolean {
  const own = error instanceof PanelError ? error.cause : error
  if (!(own instanceof Error) || !('code' in own) || typeof own.code !== 'string') return false
  return own.code.startsWith('SQLITE_') && !OF_THE_STATEMENT.includes(own.code)
}
