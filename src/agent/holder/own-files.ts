import {
  closeSync,
  fchmodSync,
  fsyncSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

// A holder has few files and writes them seldom: it works on them at once, because what would wait for them (promises of
// files, a thread) costs each of the many holders memory for all its life.

/**
 * Reads a file that this program wrote as a whole, `undefined` when there is none. Its shape is not checked again: it lies
 * in a folder that only the agent's user can write, and appears only complete.
 */
export function readJson<T>(path: string): T | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T // written by replaceJson, or by the agent, with this very type
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
}

/** Replaces the file as a whole: after a crash at any moment there is the old or the new content. Mode 0600. */
export function replaceJson<T>(path: string, value: T): void {
  const temporary = `${path}.new`
  const fd = openSync(temporary, 'w', 0o600)
  try {
    fchmodSync(fd, 0o600)
    writeFileSync(fd, JSON.stringify(value))
    fsyncSync(fd)
    renameSync(temporary, path)
  } catch (error) {
    removeFile(temporary) // on a full disk half a file would be in the way of others
    throw error
  } finally {
    closeSync(fd)
  }
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/** Removes a file that may be missing. */
export function removeFile(path: string): void {
  try {
    unlinkSync(path)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

/** Removes a folder that may be missing, with all that is in it. What Node has for whole trees is loaded only where there are folders within. */
export function removeFolder(path: string): void {
  try {
    for (const name of readdirSync(path)) removeFile(join(path, name))
    rmdirSync(path)
  } catch (error) {
    if (!isMissing(error)) rmSync(path, { recursive: true, force: true })
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
