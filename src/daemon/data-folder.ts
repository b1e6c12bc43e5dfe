import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type FolderHolder,
  FolderInUse,
  type FolderLock,
  folderHolder,
  lockFolder,
} from '../shared/platform/folder-lock.ts'

/** Takes the data folder for this process; throws FolderInUse while another daemon has it. */
export async function lockDataFolder(dataDir: string, startedAt: string): Promise<FolderLock> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  const taken = await lockFolder(lockFile(dataDir), startedAt)
  if ('lock' in taken) return taken.lock
  throw new FolderInUse('Another daemon', dataDir, taken.holder, 'stop it with: panel down')
}

/** The living daemon of a data folder. */
export function findHolder(dataDir: string): Promise<FolderHolder | undefined> {
  return folderHolder(lockFile(dataDir))
}

function lockFile(dataDir: string): string {
  return join(dataDir, 'daemon.lock')
}
