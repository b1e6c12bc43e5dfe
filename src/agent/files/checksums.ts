import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { pathText } from '../../shared/kernel/path-text.ts'
import { FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import { cancelled, jsonBytes } from './list.ts'
import {
  factsIn,
  folderIn,
  isPart,
  isRootPath,
  MOST_PATH_BYTES,
  openRegular,
  pathBelow,
  pathIn,
  withFolder,
  withPlace,
} from './place.ts'
import { Problems } from './problems.ts'
import type { ManyOptions } from './remove.ts'
import { walk } from './walk.ts'

const PIECE_BYTES = 256 * 1024
const ROW_BYTES = 110

/** A file with the hash of what was read of it. */
export interface FileSum {
  readonly path: string
  readonly size: number
  readonly sha256: string
}

/** SHA-256 of files, and of the regular files below folders in the order in which the disk lists them. */
export async function checksums(
  root: string,
  paths: readonly string[],
  { signal, progress, rules }: ManyOptions,
): Promise<{ files: FileSum[]; isCut: boolean } & Problems['answer']> {
  const files: FileSum[] = []
  const problems = new Problems()
  const done = { entries: 0, bytes: 0 }
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  let left = FILE_LIMITS.answerBytes / 2
  let isCut = false
  const add = async (folder: FolderHandle, name: Buffer, path: string): Promise<void> => {
    left -= ROW_BYTES + jsonBytes(path)
    if (left < 0 || files.length >= FILE_LIMITS.rows) isCut = true
    if (isCut) return
    const file = await openRegular({ folder, name }, constants.O_RDONLY)
    if (file === undefined) return problems.add(path, 'was taken away meanwhile')
    const hash = createHash('sha256')
    let size = 0
    try {
      for (;;) {
        if (signal.aborted) throw cancelled()
        const { bytesRead } = await file.read(piece, 0, PIECE_BYTES, size)
        if (bytesRead === 0) break
        hash.update(piece.subarray(0, bytesRead))
        size += bytesRead
        done.bytes += bytesRead
        progress({ ...done })
      }
    } finally {
      await file.close()
    }
    done.entries++
    files.push({ path, size, sha256: hash.digest('hex') })
  }
  for (const [number, path] of paths.entries()) {
    const field = { field: `paths.${number}` }
    const tree = async (folder: FolderHandle): Promise<void> => {
      const entry = async (inner: FolderHandle, name: Buffer, way: Buffer | undefined): Promise<void> => {
        if (isPart(name.toString('latin1')) || inner.statOf(name)?.isFile() !== true) return
        const found = pathIn(way, name)
        if (found === undefined) return problems.add(undefined, 'lies too deep')
        if (rules.leavesOut(pathBelow(path, found), false, problems)) return
        try {
          await add(inner, name, pathBelow(path, found))
        } catch (error) {
          if (!(error instanceof AgentFailure) || signal.aborted) throw error
          problems.add(pathText(found), error.message)
        }
      }
      const stop = (): boolean => isCut || signal.aborted
      await walk(folder, { entry: (inner, name, at) => entry(inner, name, at.path(MOST_PATH_BYTES)) }, stop)
    }
    const one = async (): Promise<void> => {
      if (isRootPath(path)) return await withFolder(root, path, tree, field)
      await withPlace(
        root,
        path,
        async (place) => {
          const isFolder = factsIn(place, path, field).isDirectory()
          rules.refuseHidden(path, isFolder)
          if (!isFolder) return await add(place.folder, place.name, path)
          const folder = folderIn(place, path, field)
          await tree(folder).finally(() => folder.close())
        },
        field,
      )
    }
    try {
      await one()
    } catch (error) {
      if (!(error instanceof AgentFailure) || paths.length === 1 || signal.aborted) throw error
      problems.add(path, error.message)
    }
    if (signal.aborted) throw cancelled()
  }
  return { files, isCut, ...problems.answer }
}
