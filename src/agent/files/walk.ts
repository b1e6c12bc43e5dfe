import { setImmediate } from 'node:timers/promises'
import { codeOf, type FolderHandle } from './folder-handle.ts'
import { Trail } from './trail.ts'

/** Work goes on for so long before others get their turn; single calls are some ten times faster than by promises. */
const SLICE_MS = 4
/** So many folders of one folder wait for their turn; the others are read again when these are done. */
const FOLDERS_AT_ONCE = 4096

/** Where a walk is: in which folder below its root. */
export interface WalkPosition {
  /** Steps below the root. */
  readonly depth: number
  /** The names that lead there, with slashes between them; empty for the root. `undefined` beyond `most` bytes. */
  path(most: number): Buffer | undefined
}

/** What is done on the way. `at` is the place of `folder`, and of `above` the one that the folder was met in. */
export interface Visitor {
  /**
   * An entry that is no folder, or a folder that is not entered: something is mounted there, or it is closed to this process. The
   * walk waits for what takes its time.
   */
  readonly entry?: (folder: FolderHandle, name: Buffer, at: WalkPosition) => unknown
  /** A folder, before what is in it; `false` leaves it out. The walk waits for it as for `entry`. */
  readonly enter?: (folder: FolderHandle, name: Buffer, above: WalkPosition) => unknown
  /** A folder after all that is in it; `name` is where it was in `folder`. */
  readonly leave?: (folder: FolderHandle, name: Buffer, at: WalkPosition) => void
}

/** Lets others have their turn when enough time has passed; false when `stop` says so. */
export function pacer(stop: () => boolean): () => Promise<boolean> {
  let pause = performance.now() + SLICE_MS
  return async () => {
    if (stop()) return false
    if (performance.now() < pause) return true
    await setImmediate()
    pause = performance.now() + SLICE_MS
    return !stop()
  }
}

/** How a walk goes. */
export interface WalkOptions {
  /** By the bytes of the names: in each folder first what is no folder, then the folders. The names of a folder are then in memory at once. */
  readonly sorted?: boolean
}

/**
 * Visits all that is in a folder, however deep and in however large folders, with a bounded number of open descriptors. It
 * follows no link, enters nothing that is mounted there and never leaves the folder, whatever somebody renames meanwhile; what is
 * moved while it is on its way is met once, twice or not at all. `stop` ends it early.
 */
export async function walk(
  root: FolderHandle,
  visitor: Visitor,
  stop: () => boolean = () => false,
  { sorted = false }: WalkOptions = {},
): Promise<void> {
  const trail = new Trail(root)
  const mount = root.mount()
  const waiting = new Map<number, Waiting>()
  const mayGoOn = pacer(stop)
  /** Visits the entries of the present folder, and leaves those that are folders for later. */
  const list = async (done: number): Promise<boolean> => {
    const folder = trail.current
    if (sorted) return await listSorted(folder)
    const names: Buffer[] = []
    let met = 0
    for (const { name, isFolder } of folder.entries()) {
      const isFull = names.length === FOLDERS_AT_ONCE
      if (isFull && done > 0) break
      if (!isFolder && done === 0) await visitor.entry?.(folder, name, trail)
      if (isFolder && ++met > done && !isFull) names.push(name)
      if (!(await mayGoOn())) return false
    }
    const more = names.length === FOLDERS_AT_ONCE
    if (names.length > 0) waiting.set(trail.depth, { names: names.reverse(), done: done + names.length, more })
    return true
  }
  const listSorted = async (folder: FolderHandle): Promise<boolean> => {
    // As characters of one byte each, which sort as the bytes do and take less memory.
    const [others, folders]: [string[], string[]] = [[], []]
    for (const { name, isFolder } of folder.entries()) (isFolder ? folders : others).push(name.toString('latin1'))
    for (const name of others.sort()) {
      await visitor.entry?.(folder, Buffer.from(name, 'latin1'), trail)
      if (!(await mayGoOn())) return false
    }
    if (folders.length > 0) {
      const names = folders
        .sort()
        .reverse()
        .map((name) => Buffer.from(name, 'latin1'))
      waiting.set(trail.depth, { names, done: names.length, more: false })
    }
    return true
  }
  const descend = async (name: Buffer): Promise<boolean> => {
    const folder = trail.current
    const child = enterable(folder, name, mount)
    if (child === undefined) {
      await visitor.entry?.(folder, name, trail)
      return true
    }
    if ((await visitor.enter?.(child, name, trail)) === false) {
      child.close()
      return true
    }
    trail.down(name, child)
    return await list(0)
  }
  try {
    if (!(await list(0))) return
    while (await mayGoOn()) {
      const here = waiting.get(trail.depth)
      const name = here?.names.pop()
      if (name !== undefined) {
        if (!(await descend(name))) return
      } else if (here?.more === true) {
        waiting.delete(trail.depth)
        if (!(await list(here.done))) return
      } else {
        waiting.delete(trail.depth)
        if (trail.depth === 0) return
        const from = trail.depth
        const left = trail.up()
        if (left !== undefined) visitor.leave?.(trail.current, left, trail)
        for (let depth = from - 1; depth > trail.depth; depth--) waiting.delete(depth)
      }
    }
  } finally {
    trail.close()
  }
}

interface Waiting {
  readonly names: Buffer[]
  /** How many folders of this one have had their turn, in the order in which they are listed. */
  readonly done: number
  readonly more: boolean
}

/** The folder of that name, when it is in the same mount and this process may enter it. */
function enterable(folder: FolderHandle, name: Buffer, mount: string | undefined): FolderHandle | undefined {
  let child: FolderHandle | undefined
  try {
    child = folder.child(name)
  } catch (error) {
    if (codeOf(error) === 'EACCES' || codeOf(error) === 'EPERM') return undefined
    throw error
  }
  // By its mount, where that is known: a subvolume that a game makes on btrfs has another device, and is its files all the same.
  const isHere = child === undefined || (mount === undefined ? child.device === folder.device : child.mount() === mount)
  if (isHere) return child
  child?.close()
  return undefined
}
