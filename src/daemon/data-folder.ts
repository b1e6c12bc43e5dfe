import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type FolderHolder,
  FolderInUse,
  type FolderLock,
  folderHolder,
  lockFolder,
} from '../shared/platform/folder-lock.ts'

/** The data folder is not one that this user can work in. */
export class UnusableDataFolder extends Error {
  override readonly name = 'UnusableDataFolder'
}

/** What the codes of the file system mean to a person, and what to do. */
const OWNER = 'run this as the user who owns it, or choose another one with --data-dir'
const OTHER = 'choose another one with --data-dir'
const REASONS: Readonly<Record<string, string>> = {
  EACCES: `this user may not use it; ${OWNER}`,
  EPERM: `this user may not use it; ${OWNER}`,
  EROFS: `its file system is read-only; mount it for writing, or ${OTHER}`,
  ENOTDIR: `a part of its path is no folder; ${OTHER}`,
  EEXIST: `there is a file of that name; ${OTHER}`,
  EISDIR: `daemon.lock in it is a folder; remove it, or ${OTHER}`,
  ELOOP: `its path has a loop of links; ${OTHER}`,
  ENAMETOOLONG: `its path is too long; ${OTHER}`,
}

/** Takes the data folder for this process; throws FolderInUse while another daemon has it. */
export async function lockDataFolder(dataDir: string, startedAt: string): Promise<FolderLock> {
  await makeDataFolder(dataDir)
  const taken = await inDataFolder(dataDir, () => lockFolder(lockFile(dataDir), startedAt))
  if ('lock' in taken) return taken.lock
  throw new FolderInUse('Another daemon', dataDir, taken.holder, 'stop it with: panel down')
}

/** Makes the data folder where there is none. */
export async function makeDataFolder(dataDir: string): Promise<void> {
  await inDataFolder(dataDir, () => mkdir(dataDir, { recursive: true, mode: 0o711 }))
}

/** The living daemon of a data folder. */
export function findHolder(dataDir: string): Promise<FolderHolder | undefined> {
  return inDataFolder(dataDir, () => folderHolder(lockFile(dataDir)))
}

/** Works in the data folder; what the file system refuses becomes what a person can do about it. */
export async function inDataFolder<T>(dataDir: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (!Object.hasOwn(REASONS, code)) throw error
    throw new UnusableDataFolder(`the data folder ${dataDir} cannot be used: ${REASONS[code]}`, { cause: error })
  }
}

function lockFile(dataDir: string): string {
  return join(dataDir, 'daemon.lock')
}
