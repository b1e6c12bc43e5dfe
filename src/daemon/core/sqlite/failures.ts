import { PanelError } from '../../../shared/errors.ts'

/** Tells a full disk and a broken file from bugs; the daemon stays up and says what is wrong. */
export function storageFailure(error: unknown): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error
  if (error.code === 'SQLITE_FULL') {
    return new PanelError('INSUFFICIENT_SPACE', "The disk of the panel's database is full; free some space", {
      cause: error,
    })
  }
  if (error.code === 'SQLITE_IOERR' || error.code === 'SQLITE_BUSY' || error.code === 'SQLITE_READONLY') {
    return new PanelError('DATABASE_UNAVAILABLE', "The panel's database cannot be written now; see the daemon's log", {
      cause: error,
    })
  }
  return error
}
