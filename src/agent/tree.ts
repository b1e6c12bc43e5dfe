import type { Stats } from 'node:fs'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, opendir, rmdir, unlink } from 'node:fs/promises'

/** Allocated bytes below `folder`; links are counted and never followed, a file with several names is counted once. */
export async function treeBytes(folder: string, signal: AbortSignal): Promise<number> {
  const seen = new Set<string>()
  let total = 0
  const walk = async (path: string): Promise<void> => {
    let folderHandle: Awaited<ReturnType<typeof opendir>>
    try {
      folderHandle = await opendir(path)
    } catch {
      return // removed while walking
    }
    for await (const entry of folderHandle) {
      if (signal.aborted) return
      const child = `${path}/${entry.name}`
      let stats: Stats
      try {
        stats = await lstat(child)
      } catch {
        continue // removed while walking
      }
      if (stats.nlink > 1 && !stats.isDirectory()) {
        const key = `${stats.dev}:${stats.ino}`
        if (seen.has(key)) continue
        seen.add(key)
      }
      total += stats.blocks * 512
      if (stats.isDirectory()) await walk(child)
    }
  }
  await walk(folder)
  return total
}

/**
 * Removes everything in `folder`, and not the folder. Each directory is opened without following links and entries are
 * removed through that handle, so that a link put in the way by a game, even in mid-work, leads nowhere.
 */
export async function emptyFolder(folder: string): Promise<void> {
  const handle = await openFolder(folder)
  if (handle === undefined) return
  try {
    await removeEntries(handle)
  } finally {
    await handle.close()
  }
}

/** Removes a folder and everything in it, by the rules of {@link emptyFolder}; a link in its place is removed as a link. */
export async function removeFolder(folder: string): Promise<void> {
  await emptyFolder(folder)
  try {
    await removeName(folder)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

async function removeEntries(handle: FileHandle): Promise<void> {
  const base = `/proc/self/fd/${handle.fd}`
  const names: string[] = []
  for await (const entry of await opendir(base)) names.push(entry.name)
  for (const name of names) {
    const path = `${base}/${name}`
    const child = await openFolder(path)
    if (child !== undefined) {
      try {
        await removeEntries(child)
      } finally {
        await child.close()
      }
    }
    await removeName(path).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }
}

/** A handle of a real directory; `undefined` for anything else, a link among it. */
async function openFolder(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  } catch (error) {
    if (error instanceof Error && 'code' in error && ['ENOTDIR', 'ELOOP', 'ENOENT'].includes(String(error.code))) {
      return undefined
    }
    throw error
  }
}

async function removeName(path: string): Promise<void> {
  try {
    await unlink(path)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code !== 'EISDIR' && code !== 'EPERM') throw error
    await rmdir(path)
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
