import { closeSync, constants, fstatSync, openSync, read, readSync, type Stats } from 'node:fs'
import { promisify } from 'node:util'
import { pathText } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { ARCHIVE_LIMITS } from '../files/archive/limits.ts'
import { codeOf, FolderHandle } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { isPart, MOST_PATH_BYTES, pathIn } from '../files/place.ts'
import type { Problems } from '../files/problems.ts'
import { walk } from '../files/walk.ts'
import { IgnoredPaths } from './ignored.ts'

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
const PIECE_BYTES = 256 * 1024
/** A file that fits is read at once: single calls are some ten times faster than by promises. */
const AT_ONCE_BYTES = 128 * 1024
const OWN_PATTERNS = '.panelignore'
const MOST_OWN_BYTES = 64 * 1024
const MOST_OWN_LINES = 1000
const readAsync = promisify(read)

/** A regular file that is held open while it is packed. */
export interface OpenFile {
  readonly facts: Stats
  /**
   * Exactly so many bytes as `facts` says: what was cut off meanwhile comes as zeros, what was added is left. The buffer of a piece is used
   * again for the next one.
   */
  content(): AsyncGenerator<Buffer>
}

/** Takes what a walk meets, in the order of the walk. `path` is from the server's folder on. */
export interface ScanVisitor {
  folder(path: Buffer, facts: Stats): Promise<void>
  link(path: Buffer, target: Buffer, facts: Stats): Promise<void>
  /** With `facts` alone where the content is known already: answers whether it is, and then `file` is not called. */
  known?(path: Buffer, facts: Stats): Promise<boolean>
  file(path: Buffer, file: OpenFile): Promise<void>
}

/** What is left out, and where that is noted. */
export interface ScanOptions {
  readonly ignored: readonly string[]
  /** What the server's own patterns name is in. */
  readonly whole: boolean
  readonly problems: Problems
  readonly signal: AbortSignal
}

/**
 * Walks a server's folder for a backup. What could not be put back again is left out and named: what is no file, folder or link, and what
 * lies deeper than archives may. A file that changes while it is read is in, and named.
 */
export async function scan(
  root: string,
  visitor: ScanVisitor,
  { ignored, whole, problems, signal }: ScanOptions,
): Promise<void> {
  const top = FolderHandle.open(root)
  if (top === undefined) throw new AgentFailure('NOT_FOUND', 'The folder of the server is not there: install it first')
  try {
    const buffer = Buffer.allocUnsafeSlow(PIECE_BYTES)
    const rules = new IgnoredPaths([...ignored, ...(whole ? [] : ownPatterns(top))])
    let [entries, links] = [0, 0]
    /** Where an entry is in the backup; `undefined`: it is left out. */
    const placeOf = (way: Buffer | undefined, name: Buffer, isFolder: boolean): Buffer | undefined => {
      if (isPart(name.toString('latin1'))) return undefined
      const path = pathIn(way, name)
      const depth = path === undefined ? 0 : path.toString('latin1').split('/').length
      if (path === undefined || path.length > MOST_PATH_BYTES || depth > ARCHIVE_LIMITS.depth) {
        problems.add(
          path?.subarray(0, 1000),
          `lies deeper than ${ARCHIVE_LIMITS.depth} folders, or has too long a path`,
        )
        return undefined
      }
      if (!rules.isEmpty && rules.has(pathText(path).split('/'), isFolder)) return undefined
      if (++entries > ARCHIVE_LIMITS.packedEntries) {
        const message = `The server has more than ${ARCHIVE_LIMITS.packedEntries} files and folders; leave some out by ${OWN_PATTERNS}`
        throw new AgentFailure('CONFLICT_STATE', message)
      }
      return path
    }
    await walk(
      top,
      {
        enter: async (folder, name, above) => {
          const path = placeOf(above.path(MOST_PATH_BYTES), name, true)
          if (path === undefined) return false
          await visitor.folder(path, folder.stat())
          return true
        },
        entry: async (folder, name, at) => {
          const path = placeOf(at.path(MOST_PATH_BYTES), name, false)
          if (path === undefined) return
          const facts = folder.statOf(name)
          if (facts === undefined) return problems.add(path, 'was taken away meanwhile')
          if (facts.isSymbolicLink()) {
            const target = folder.linkTarget(name)
            if (target === undefined) return problems.add(path, 'was taken away meanwhile')
            if (++links > ARCHIVE_LIMITS.links)
              return problems.add(path, `is one of more than ${ARCHIVE_LIMITS.links} links`)
            return await visitor.link(path, target, facts)
          }
          if (!facts.isFile()) return problems.add(path, 'is a FIFO, a socket, a device, or closed to the agent')
          if ((await visitor.known?.(path, facts)) === true) return
          const problem = await withFile(folder, name, { signal, buffer }, (file) => visitor.file(path, file))
          if (problem !== undefined) problems.add(path, problem)
        },
      },
      () => signal.aborted,
      { sorted: true },
    )
    if (signal.aborted) throw cancelled()
  } finally {
    top.close()
  }
}

async function withFile(
  folder: FolderHandle,
  name: Buffer,
  { signal, buffer }: { readonly signal: AbortSignal; readonly buffer: Buffer },
  work: (file: OpenFile) => Promise<void>,
): Promise<string | undefined> {
  let fd: number
  try {
    fd = openSync(folder.pathOf(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT') return 'was taken away meanwhile'
    if (code === 'EACCES' || code === 'EPERM') return 'is closed to the agent'
    if (code === 'ELOOP' || code === 'ENXIO') return 'became something else meanwhile'
    throw error
  }
  try {
    const facts = fstatSync(fd)
    if (!facts.isFile()) return 'became something else meanwhile'
    let isShort = false
    async function* content(): AsyncGenerator<Buffer> {
      for (let at = 0; at < facts.size; ) {
        if (signal.aborted) throw cancelled()
        const piece = buffer.subarray(0, Math.min(buffer.length, facts.size - at))
        let count = 0
        if (!isShort) {
          count =
            facts.size <= AT_ONCE_BYTES
              ? readSync(fd, piece, 0, piece.length, at)
              : (await readAsync(fd, piece, 0, piece.length, at)).bytesRead
        }
        if (count === 0) {
          isShort = true
          count = piece.fill(0).length
        }
        at += count
        yield piece.subarray(0, count)
      }
    }
    await work({ facts, content })
    const after = fstatSync(fd)
    const isSame = after.size === facts.size && after.mtimeMs === facts.mtimeMs && after.ctimeMs === facts.ctimeMs
    return isSame && !isShort ? undefined : 'was changed while it was packed'
  } finally {
    closeSync(fd)
  }
}

/** The patterns that the server itself has, as far as they are few. */
function ownPatterns(top: FolderHandle): string[] {
  let fd: number
  try {
    const name = Buffer.from(OWN_PATTERNS)
    if (top.statOf(name)?.isFile() !== true) return []
    fd = openSync(top.pathOf(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (codeOf(error) === undefined) throw error
    return []
  }
  try {
    if (!fstatSync(fd).isFile()) return []
    const text = Buffer.alloc(MOST_OWN_BYTES)
    const count = readSync(fd, text, 0, text.length, 0)
    return pathText(text.subarray(0, count)).split('\n').slice(0, MOST_OWN_LINES)
  } finally {
    closeSync(fd)
  }
}
