import { mkdir, open, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { HostProblem } from '../../shared/kernel/host-problem.ts'
import {
  type FolderHolder,
  FolderInUse,
  type FolderLock,
  folderHolder,
  lockFolder,
} from '../../shared/platform/folder-lock.ts'

/** The data folder is not one that this user can work in. */
export class UnusableDataFolder extends HostProblem {
  override readonly name = 'UnusableDataFolder'
}

/** What the codes of the file system mean to a person, and what to do. */
const OTHER = 'choose another one with --data-dir'
const REASONS: Readonly<Record<string, string>> = {
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
  await inDataFolder(dataDir, () => makeLockFile(dataDir))
  const taken = await inDataFolder(dataDir, () => lockFolder(lockFile(dataDir), startedAt))
  if ('lock' in taken) return taken.lock
  throw new FolderInUse('Another daemon', dataDir, taken.holder, 'stop it with: panel down')
}

/** Makes the data folder where there is none. */
export async function makeDataFolder(dataDir: string): Promise<void> {
  await inDataFolder(dataDir, () => makeFolders(dataDir))
}

/** By hand: `recursive` never ends where a file system takes no folder (`/proc`), and says ENOENT of one that is read-only. */
async function makeFolders(path: string, isAboveThere = false): Promise<void> {
  try {
    await mkdir(path, { mode: 0o711 })
  } catch (error) {
    const there = await stat(path).catch(() => undefined) // what cannot be looked at is refused with the first error
    if (there?.isDirectory()) return
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) throw error
    if (isAboveThere || dirname(path) === path) {
      throw new UnusableDataFolder(`the folder ${path} cannot be made: ${dirname(path)} takes none; ${OTHER}`, {
        cause: error,
      })
    }
    await makeFolders(dirname(path))
    await makeFolders(path, true)
  }
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
    const reason = code === 'EACCES' || code === 'EPERM' ? await whoseItIs(error, dataDir) : REASONS[code]
    if (reason === undefined) throw error
    throw new UnusableDataFolder(`the data folder ${dataDir} cannot be used: ${reason}`, { cause: error })
  }
}

/** Whom root works for: the owner of the folder, who could not use what root makes in it. `undefined` for everybody else. */
export async function ownerOf(dataDir: string): Promise<{ readonly uid: number; readonly gid: number } | undefined> {
  return process.getuid?.() === 0 ? stat(dataDir) : undefined
}

/** The file that a refusal is about, its owner, and what to do. */
async function whoseItIs(error: unknown, dataDir: string): Promise<string> {
  let path = error instanceof Error && 'path' in error && typeof error.path === 'string' ? error.path : dataDir
  for (;;) {
    const found = await stat(path).catch(() => undefined) // missing or hidden: the folder above refuses it
    if (found !== undefined) {
      const who = `${path} belongs to uid ${found.uid}, and this runs as uid ${process.getuid?.()}`
      return `${who}; run this as its owner, give it to this user with chown, or ${OTHER}`
    }
    if (dirname(path) === path) return `this user may not use it; ${OTHER}`
    path = dirname(path)
  }
}

/** Only a new file is given away: root must not be made to give away what somebody else has put there. */
async function makeLockFile(dataDir: string): Promise<void> {
  const owner = await ownerOf(dataDir)
  if (owner === undefined) return
  try {
    const file = await open(lockFile(dataDir), 'wx', 0o600)
    await file.chown(owner.uid, owner.gid).finally(() => file.close())
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
}

function lockFile(dataDir: string): string {
  return join(dataDir, 'daemon.lock')
}
