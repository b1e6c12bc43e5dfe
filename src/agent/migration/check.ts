import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { MIGRATION_LIMITS } from '../../shared/protocol/migration.ts'
import { AgentFailure } from '../failure.ts'
import { FolderHandle } from '../files/folder-handle.ts'
import { cancelled } from '../files/list.ts'
import { openRegular, withPlace } from '../files/place.ts'
import { walk } from '../files/walk.ts'
import { type ListedFile, listedFiles } from './file-list.ts'

const PIECE_BYTES = 256 * 1024
/** Of a sample. */
const SAMPLE = { oneOf: 20, least: 100 } as const

/** What is compared with a list. */
export interface CheckOptions {
  /** The folder that has the files. */
  readonly root: string
  readonly listPath: string
  /** How many files the list has. */
  readonly files: number
  readonly mode: 'full' | 'sample'
  /** Files that the list does not have are differences. */
  readonly isAll: boolean
  readonly signal: AbortSignal
  progress(report: { readonly entries: number; readonly bytes: number }): void
}

/** What the comparison has shown. `read`: files of which every byte was read. */
export interface Checked {
  readonly files: number
  readonly read: number
  readonly bytes: number
  readonly differences: { path: string; reason: string }[]
  readonly differenceCount: number
}

/** Compares the files of a folder with what they were when they were unpacked: sizes of all, hashes of all or of a sample, and how many there are. */
export async function checkFiles({
  root,
  listPath,
  files,
  mode,
  isAll,
  signal,
  progress,
}: CheckOptions): Promise<Checked> {
  const differences: { path: string; reason: string }[] = []
  const done = { files: 0, read: 0, bytes: 0, differenceCount: 0 }
  const differs = (path: string, reason: string): void => {
    done.differenceCount++
    if (differences.length < MIGRATION_LIMITS.rows) differences.push({ path: path.slice(0, 4096), reason })
  }
  const every = mode === 'full' ? 1 : Math.max(1, Math.min(SAMPLE.oneOf, Math.floor(files / SAMPLE.least)))
  let there = 0
  for await (const file of listedFiles(listPath)) {
    if (signal.aborted) throw cancelled()
    const isRead = done.files++ % every === 0
    const reason = await differenceOf(root, file, { isRead, signal })
    if (reason !== MISSING) there++
    if (reason !== undefined) differs(`/${file.path}`, reason)
    if (isRead) {
      done.read++
      done.bytes += file.size
    }
    progress({ entries: done.files, bytes: done.bytes })
  }
  const found = isAll ? await countFiles(root, signal) : there
  if (found > there) differs('/', `has ${found - there} files more than have come`)
  return { ...done, differences }
}

const MISSING = 'is missing, or is no file any more'

async function differenceOf(
  root: string,
  { path, size, sha256 }: ListedFile,
  { isRead, signal }: { readonly isRead: boolean; readonly signal: AbortSignal },
): Promise<string | undefined> {
  try {
    return await withPlace(root, path, async (place) => {
      const file = await openRegular(place, constants.O_RDONLY)
      if (file === undefined) return MISSING
      try {
        const facts = await file.stat()
        if (facts.size !== size) return `has ${facts.size} bytes in place of ${size}`
        if (!isRead) return undefined
        const hash = createHash('sha256')
        const piece = Buffer.allocUnsafe(PIECE_BYTES)
        for (let at = 0; ; ) {
          if (signal.aborted) throw cancelled()
          const { bytesRead } = await file.read(piece, 0, piece.length, at)
          if (bytesRead === 0) break
          hash.update(piece.subarray(0, bytesRead))
          at += bytesRead
        }
        return hash.digest('hex') === sha256 ? undefined : 'has another content'
      } finally {
        await file.close()
      }
    })
  } catch (error) {
    if (error instanceof AgentFailure && (error.code === 'NOT_FOUND' || error.code === 'PATH_INVALID')) return MISSING
    throw error
  }
}

async function countFiles(root: string, signal: AbortSignal): Promise<number> {
  const folder = FolderHandle.open(root)
  if (folder === undefined) return 0
  let files = 0
  try {
    const entry = (at: FolderHandle, name: Buffer): void => {
      if (at.statOf(name)?.isFile() === true) files++
    }
    await walk(folder, { entry }, () => signal.aborted)
  } finally {
    folder.close()
  }
  if (signal.aborted) throw cancelled()
  return files
}
