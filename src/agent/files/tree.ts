import { rmdirSync, unlinkSync } from 'node:fs'
import { codeOf, FolderHandle } from './folder-handle.ts'
import { walk } from './walk.ts'

/** Where counting ends before all is counted. */
interface CountOptions {
  readonly signal: AbortSignal
  /** From here on it does not matter how much more there is: a game may make files for as long as it is counted. */
  readonly enoughBytes?: number
}

/** Allocated bytes below `folder`; links are counted and never followed, a file with several names is counted once. */
export async function treeBytes(folder: string, { signal, enoughBytes = Infinity }: CountOptions): Promise<number> {
  const root = FolderHandle.open(folder)
  if (root === undefined) return 0
  const seen = new Set<number | string>()
  let total = 0
  const entry = (at: FolderHandle, name: Buffer): void => {
    const facts = at.statOf(name)
    if (facts === undefined) return
    if (facts.nlink > 1 && !facts.isDirectory()) {
      // A subvolume of btrfs is in the same mount, with numbers of its own.
      const key = BigInt(facts.dev) === root.device ? facts.ino : `${facts.dev} ${facts.ino}`
      if (seen.has(key)) return
      seen.add(key)
    }
    total += facts.blocks * 512
  }
  const enter = (inner: FolderHandle): void => {
    total += inner.stat().blocks * 512
  }
  try {
    await walk(root, { entry, enter }, () => signal.aborted || total >= enoughBytes)
  } finally {
    root.close()
  }
  return total
}

/**
 * Removes everything in `folder`, and not the folder. Entries are removed through the handle of the folder that they are in,
 * so that a link put in the way by a game, even in mid-work, leads nowhere. What is in the way of removing everything (a
 * mount, an attribute of the file system) fails it, after all else is gone. Answers how many entries were removed.
 */
export async function emptyFolder(folder: string): Promise<number> {
  const root = FolderHandle.open(folder)
  if (root === undefined) return 0
  try {
    return await emptyHandle(root)
  } finally {
    root.close()
  }
}

/** What a removal is watched by. */
export interface RemovalWatch {
  /** Ends it early; what is removed by then stays removed. */
  readonly stop?: () => boolean
  /** Called after each entry. */
  readonly removed?: () => void
}

/** The same for a folder that is held open. */
export async function emptyHandle(root: FolderHandle, { stop, removed: note }: RemovalWatch = {}): Promise<number> {
  let entries = 0
  let removed: Removed
  do {
    removed = await removeOnce(root, { stop: stop ?? (() => false), removed: note ?? (() => {}) })
    entries += removed.count
  } while (removed.count > 0 && removed.left > 0 && stop?.() !== true)
  if (removed.left > 0 && stop?.() !== true) {
    throw removed.failure ?? new Error('Entries that appear again and again cannot be removed')
  }
  return entries
}

/** Removes a folder and everything in it, by the rules of {@link emptyFolder}; a link in its place is removed as a link. */
export async function removeFolder(folder: string): Promise<number> {
  const entries = await emptyFolder(folder)
  try {
    rmdirSync(folder)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return entries
    if (code !== 'ENOTDIR') throw error
    unlinkSync(folder)
  }
  return entries
}

interface Removed {
  readonly count: number
  /** Entries that are still there, or came meanwhile. */
  readonly left: number
  readonly failure: unknown
}

/** One walk that removes what it meets, the deepest first. What is moved about meanwhile is left for the next one. */
async function removeOnce(root: FolderHandle, watch: Required<RemovalWatch>): Promise<Removed> {
  let count = 0
  let failure: unknown
  const attempt = (remove: () => boolean): void => {
    try {
      if (!remove()) return
      count++
      watch.removed()
    } catch (error) {
      failure = error
    }
  }
  await walk(
    root,
    {
      entry: (folder, name) => attempt(() => folder.unlink(name) || folder.removeFolder(name)),
      leave: (folder, name) => attempt(() => folder.removeFolder(name)),
    },
    watch.stop,
  )
  let left = 0
  for (const _entry of root.entries()) {
    left++
    break
  }
  return { count, left, failure }
}
