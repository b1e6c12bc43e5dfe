import type { Stats } from 'node:fs'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import { cancelled } from './list.ts'
import { factsIn, folderIn, isPart, MOST_PATH_BYTES, pathIn, withPlace } from './place.ts'
import { Problems } from './problems.ts'
import type { ManyOptions } from './remove.ts'
import { walk } from './walk.ts'

const SEVERAL = 'has several names: one of them may be outside of the server'

/** Which modes are set; only the nine bits of reading, writing and executing. */
export interface Modes {
  readonly mode: number
  readonly recursive: boolean
  /** Of folders below; by default `mode`, and whoever may read may enter. */
  readonly folderMode: number | null
}

/**
 * Sets modes. Bits that change the user (setuid, setgid) and the sticky bit are taken away. Links are left as they are, and so are files
 * with several names: another one may lie where the server has nothing to change.
 */
export async function setModes(
  root: string,
  paths: readonly string[],
  { mode, recursive, folderMode, signal, progress, rules }: Modes & ManyOptions,
): Promise<{ entries: number } & Problems['answer']> {
  const problems = new Problems()
  const below = (folderMode ?? mode | ((mode & 0o444) >> 2)) & 0o777
  let entries = 0
  const set = (folder: FolderHandle, name: Buffer, shown: () => string | Buffer | undefined): void => {
    let reason = 'was taken away meanwhile'
    const may = (facts: Stats): boolean => {
      if (facts.isDirectory() || facts.nlink === 1) return true
      reason = SEVERAL
      return false
    }
    try {
      const facts = folder.statOf(name)
      if (facts?.isSymbolicLink() === true) return
      const bits = recursive && facts?.isDirectory() === true ? below : mode
      if (folder.setModeOf(name, bits & 0o777, may)) progress({ entries: ++entries, bytes: 0 })
      else problems.add(shown(), reason)
    } catch (error) {
      problems.add(shown(), error instanceof Error ? error.message.slice(0, 100) : 'cannot be changed')
    }
  }
  const tree = async (folder: FolderHandle): Promise<void> => {
    await walk(
      folder,
      {
        entry: (inner, name, at) => {
          if (!isPart(name.toString('latin1'))) set(inner, name, () => pathIn(at.path(MOST_PATH_BYTES), name))
        },
        leave: (inner, name, at) => set(inner, name, () => pathIn(at.path(MOST_PATH_BYTES), name)),
      },
      () => signal.aborted,
    )
  }
  for (const [number, path] of paths.entries()) {
    const field = { field: `paths.${number}` }
    const one = async (): Promise<void> => {
      await withPlace(
        root,
        path,
        async (place) => {
          const facts = factsIn(place, path, field)
          rules.refuseUnreached(path, facts.isDirectory())
          const before = problems.answer.problemCount
          if (recursive && facts.isDirectory()) {
            const folder = folderIn(place, path, field)
            await rules
              .refuseDeniedIn(folder, [path], signal)
              .then(() => tree(folder))
              .finally(() => folder.close())
          }
          if (facts.isSymbolicLink()) throw new AgentFailure('PATH_INVALID', 'names a link, which has no mode', field)
          set(place.folder, place.name, () => path)
          if (paths.length === 1 && !recursive && problems.answer.problemCount > before) {
            throw new AgentFailure('PATH_INVALID', problems.answer.problems[0]?.reason ?? 'cannot be changed', field)
          }
        },
        field,
      )
    }
    try {
      await one()
    } catch (error) {
      if (!(error instanceof AgentFailure) || paths.length === 1) throw error
      problems.add(path, error.message)
    }
    if (signal.aborted) throw cancelled()
  }
  return { entries, ...problems.answer }
}
