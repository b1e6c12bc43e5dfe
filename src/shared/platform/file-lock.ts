import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { flock } from './flock.ts'

/**
 * Takes the kernel's `flock` on a file, which is made when it is missing. The lock belongs to the open file: it ends with
 * the process, however that ends, holds in every pid namespace, and is not inherited by programs that the process starts.
 * Resolves with the open file that stands for the lock (closing it lets go), or `undefined` when another process has it for
 * `waitSeconds`.
 */
export async function takeLock(path: string, waitSeconds: number): Promise<FileHandle | undefined> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  let taken = false
  try {
    taken = await flock(file.fd, waitSeconds > 0 ? ['-x', '-w', String(waitSeconds)] : ['-x', '-n'])
  } finally {
    if (!taken) await file.close()
  }
  return taken ? file : undefined
}

/** Whether somebody has the lock of this open file. */
export async function isLocked(file: FileHandle): Promise<boolean> {
  const free = await flock(file.fd, ['-s', '-n'])
  return !free
}
